//! `--gpus`: `all`, `0,2`, `GPU-uuid,…`, `none`, `sim:8x24GiB`, `sim:4x24GiB,4x80GiB`.

use std::str::FromStr;

use gpulane_model::Bytes;

/// Simulated GPUs beyond this are a typing error, not a machine.
const MOST_SIMULATED: usize = 4096;

/// What `--gpus` asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSpec {
    /// Every GPU there is; none if there are none.
    All,
    /// These: indices in PCI order, or UUIDs (a unique prefix will do).
    These(Vec<String>),
    /// No GPU: CPU lanes.
    None,
    /// Simulated GPUs of these sizes.
    Sim(Vec<Bytes>),
}

/// `--gpus` could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--gpus {given}: {problem}; write all, none, 0,2, GPU-…, or sim:8x24GiB")]
pub struct SpecError {
    given: String,
    problem: String,
}

impl FromStr for GpuSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let bad = |problem: String| SpecError { given: text.to_owned(), problem };
        match text.trim() {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            "" => Err(bad("nothing is named".to_owned())),
            sim if sim == "sim" || sim.starts_with("sim:") => {
                simulated(sim.strip_prefix("sim:").unwrap_or("")).map(Self::Sim).map_err(bad)
            }
            list => named(list).map(Self::These).map_err(bad),
        }
    }
}

fn simulated(shapes: &str) -> Result<Vec<Bytes>, String> {
    let mut sizes = Vec::new();
    for shape in shapes.split(',') {
        let (count, size) = shape
            .trim()
            .split_once('x')
            .ok_or_else(|| format!("`{shape}` is not COUNTxSIZE such as 8x24GiB"))?;
        let count: usize = count.parse().map_err(|_| format!("`{count}` is not a number of GPUs"))?;
        let size: Bytes = size.parse().map_err(|error| format!("{error}"))?;
        if count == 0 || sizes.len() + count > MOST_SIMULATED {
            return Err(format!("{count} GPUs; between 1 and {MOST_SIMULATED} can be simulated"));
        }
        sizes.extend(std::iter::repeat_n(size, count));
    }
    Ok(sizes)
}

fn named(list: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let index = name.parse::<u32>().is_ok();
        let uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
        if !index && !uuid {
            return Err(format!("`{name}` is neither a number nor a UUID"));
        }
        if names.iter().any(|known| known == name) {
            return Err(format!("`{name}` is named twice"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_every_form() {
        let gib = |n: u64| Bytes(n << 30);
        assert_eq!("all".parse(), Ok(GpuSpec::All));
        assert_eq!("0,2".parse(), Ok(GpuSpec::These(vec!["0".into(), "2".into()])));
        assert_eq!("sim:2x24GiB,1x80GiB".parse(), Ok(GpuSpec::Sim(vec![gib(24), gib(24), gib(80)])));
    }

    #[test]
    fn refuses_the_rest_and_says_what_to_write() {
        for wrong in [
            "",
            "some",
            "sim",
            "sim:",
            "sim:0x1GiB",
            "sim:8x24",
            "sim:9999999x1GiB",
            "0,0",
            "1,,2",
            "sim:-1x1GiB",
        ] {
            let error = wrong.parse::<GpuSpec>().unwrap_err().to_string();
            assert!(error.contains("sim:8x24GiB"), "{wrong}: {error}");
        }
    }
}
