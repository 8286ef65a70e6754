//! Sizes and durations as people write them: `6GiB`, `2h 30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration or an instant of the runtime's clock, in milliseconds. The core sees time only as this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Why a size or duration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnitError {
    /// What is wrong, in a form that follows the offending text.
    pub message: String,
}

const UNITS: [(&str, u64); 13] = [
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = |message: String| UnitError { message };
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim().to_ascii_lowercase());
        let number: f64 =
            number.parse().map_err(|_| bad(format!("`{text}` is not a size; write for example \"6GiB\"")))?;
        let factor =
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(|| {
                bad(format!("`{text}` needs a unit: \"{number}GiB\", \"{number}MiB\", \"{number}GB\""))
            })?;
        #[allow(clippy::cast_precision_loss)]
        let bytes = number * factor as f64;
        if !(bytes.is_finite() && bytes < 1e18) {
            return Err(bad(format!("`{text}` is larger than any memory")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss)]
        let bytes = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1024 => return write!(f, "{} B", self.0),
            1024..1_048_576 => (bytes / 1024.0, "KiB"),
            1_048_576..1_073_741_824 => (bytes / 1_048_576.0, "MiB"),
            _ => (bytes / 1_073_741_824.0, "GiB"),
        };
        if value.fract() == 0.0 { write!(f, "{value:.0} {unit}") } else { write!(f, "{value:.1} {unit}") }
    }
}

impl Millis {
    /// This many whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// As the standard library's duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// In seconds, for people and events.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The time from `earlier` to this, zero if the clock was set back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// This much later. Saturates: a timeout of a billion years simply never comes.
    #[must_use]
    pub const fn after(self, delay: Self) -> Self {
        Self(self.0.saturating_add(delay.0))
    }
}

impl FromStr for Millis {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let duration = humantime::parse_duration(text.trim()).map_err(|_| UnitError {
            message: format!("`{text}` is not a duration; write for example \"30s\", \"10m\" or \"2h 30m\""),
        })?;
        let millis = u64::try_from(duration.as_millis())
            .map_err(|_| UnitError { message: format!("`{text}` is longer than anything can wait") })?;
        Ok(Self(millis))
    }
}

impl fmt::Display for Millis {
    /// As a person would say it: `0.8 s`, `12 s`, `3m 20s`, `2h 05m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        match seconds {
            0..10 => write!(f, "{:.1} s", self.as_seconds()),
            10..60 => write!(f, "{seconds} s"),
            60..3600 => write!(f, "{}m {:02}s", seconds / 60, seconds % 60),
            _ => write!(f, "{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!("24GiB".parse(), Ok(Bytes(24 << 30)));
        assert_eq!("1.5 GiB".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("80GB".parse(), Ok(Bytes(80_000_000_000)));
        for wrong in ["", "GiB", "5", "5 parsecs", "1e400GiB", "-1GiB", "99999999999TiB", "1.2.3GiB", "é"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_as_people_write_them() {
        assert_eq!("2h 30m".parse(), Ok(Millis(9_000_000)));
        assert_eq!("0s".parse(), Ok(Millis(0)));
        assert!("soon".parse::<Millis>().is_err());
        assert_eq!(Millis(200_000).to_string(), "3m 20s");
        assert_eq!(Millis(840).to_string(), "0.8 s");
    }
}
