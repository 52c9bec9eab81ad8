//! JSON for `--json`, by serde_json: a value whose objects keep their order.

use std::io;

use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;

/// A JSON value.
#[derive(Debug, Clone)]
pub enum Json {
    /// A string; characters that could drive a terminal are escaped as `\uXXXX`.
    Text(String),
    /// A number, rounded to six decimal places; NaN and infinities become `null`.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
    /// An array.
    List(Vec<Json>),
    /// An object, its keys in this order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A string value.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// An object with these keys and values, in this order.
    #[must_use]
    pub fn object(pairs: Vec<(&str, Json)>) -> Self {
        Self::Object(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_string(), value))
                .collect(),
        )
    }

    /// The value on one line, which drives no terminal.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, Harmless);
        // Writing to a vector does not fail, and all keys are strings.
        let _ = self.serialize(&mut serializer);
        String::from_utf8(out).unwrap_or_default()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            // No figure is precise to more than six decimal places.
            Self::Number(number) => serializer.serialize_f64((number * 1e6).round() / 1e6),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::List(list) => serializer.collect_seq(list),
            Self::Object(pairs) => {
                serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

/// Writes whole numbers without a point, and escapes every character that is not harmless.
struct Harmless;

impl Formatter for Harmless {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value}")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if escape::is_harmless(character) {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_and_numbers_are_plain() {
        let value = Json::object(vec![
            ("a\"", Json::text("x\n\\\u{202e}\u{9b}\u{e0001}é")),
            (
                "n",
                Json::List(vec![
                    Json::Number(1.5),
                    Json::Number(2e9),
                    Json::Number(f64::NAN),
                ]),
            ),
            ("b", Json::Bool(true)),
        ]);
        assert_eq!(
            value.render(),
            r#"{"a\"":"x\n\\\u202e\u009b\udb40\udc01é","n":[1.5,2000000000,null],"b":true}"#
        );
    }
}
