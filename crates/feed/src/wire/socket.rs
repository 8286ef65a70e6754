//! The socket workers connect to.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Its name in the map's directory.
pub const SOCKET: &str = "feed.sock";
/// Longest path a socket's address holds.
const LONGEST_ADDRESS: usize = 107;
/// Connections that may wait to be accepted: all workers of a large machine at once.
const BACKLOG: i32 = 128;

/// Listens on `feed.sock` in a map's directory, in place of one that an earlier feeder left. Only this user can connect.
pub fn listen(dir: &Path) -> io::Result<UnixListener> {
    let path = dir.join(SOCKET);
    let said = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
    };
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(said(error)),
        _ => {}
    }
    bind(dir, &path).map_err(said)
}

fn bind(dir: &Path, path: &Path) -> io::Result<UnixListener> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Before it has a name: there is no instant at which others could connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    // The directory has to stay open until the name is made.
    let (address, _dir) = if path.as_os_str().as_bytes().len() > LONGEST_ADDRESS {
        let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        (PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd())), Some(dir))
    } else {
        (path.to_owned(), None)
    };
    rustix::net::bind(&socket, &SocketAddrUnix::new(&address)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_only_this_user_may_connect() {
        let dir = tempfile::tempdir().unwrap();
        drop(listen(dir.path()).unwrap());
        let listener = listen(dir.path()).unwrap();
        let path = dir.path().join(SOCKET);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _worker = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().is_ok());
    }

    #[test]
    fn a_directory_with_a_path_longer_than_an_address_works() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let listener = listen(&deep).unwrap();
        let opened = std::fs::File::open(&deep).unwrap();
        let _worker = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd())).unwrap();
        assert!(listener.accept().is_ok());
    }

    #[test]
    fn a_mistake_names_the_path() {
        let error = listen(Path::new("/nowhere/at/all")).expect_err("there is no such directory");
        assert!(error.to_string().contains("/nowhere/at/all/feed.sock"), "{error}");
    }
}
