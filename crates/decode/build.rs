//! Builds the small piece of C that listens to libjpeg-turbo, with the headers of the library that `turbojpeg-sys` has built.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const SOURCE: &str = "src/jpeg/libjpeg/watch.c";
    println!("cargo:rerun-if-changed={SOURCE}");
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE")?;
    cc::Build::new().file(SOURCE).includes(include.split(',')).warnings(true).try_compile("gpulane_watch")?;
    Ok(())
}
