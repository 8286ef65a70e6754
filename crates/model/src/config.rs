//! A job's configuration: one JSON object, kept as the text the job will receive. A hundred thousand jobs cost
//! a hundred thousand short strings, not trees.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A JSON object as compact text.
#[derive(Clone, PartialEq, Eq)]
pub struct Config(Box<str>);

impl Config {
    /// The configuration with these entries, in their order.
    pub fn from_map(map: &Map<String, Value>) -> Self {
        // A map of JSON values always has a JSON text; `{}` is unreachable.
        Self(serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned()).into_boxed_str())
    }

    /// The JSON text, as in `{config}` and `GPULANE_CONFIG`.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The entries, parsed anew.
    pub fn entries(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// How a value stands in an argv, an environment variable or a job's name: strings bare, the rest as JSON.
    pub fn value_text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self("{}".into())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('{') {
            return Err(serde::de::Error::custom("a config must be a JSON object"));
        }
        Ok(Self(raw.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_numbers_through_json() {
        let text = r#"{"z":1e-5,"a":[1,2.0],"s":"x y"}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&config).unwrap(), text);
        assert_eq!(config.entries().keys().collect::<Vec<_>>(), ["z", "a", "s"]);
    }

    #[test]
    fn refuses_what_is_not_an_object() {
        assert!(serde_json::from_str::<Config>("[1]").is_err());
    }
}
