//! A writer of JSON for `--json`: objects of strings, numbers, truths, lists and objects, nothing
//! more.

use std::fmt::Write;

/// A JSON value.
#[derive(Debug, Clone)]
pub(crate) enum Json {
    Text(String),
    Number(f64),
    Bool(bool),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn object(pairs: Vec<(&str, Json)>) -> Self {
        Self::Object(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_string(), value))
                .collect(),
        )
    }

    /// The value on one line.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => quote(text, out),
            Self::Number(number) if number.is_finite() => {
                // Six digits behind the point are more than any figure here is good for.
                let _ = write!(out, "{}", (number * 1e6).round() / 1e6);
            }
            Self::Number(_) => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::List(list) => {
                out.push('[');
                for (index, value) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    value.write(out);
                }
                out.push(']');
            }
            Self::Object(pairs) => {
                out.push('{');
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    quote(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            other if escape::is_harmless(other) => out.push(other),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_and_numbers_are_plain() {
        let value = Json::object(vec![
            ("a\"", Json::text("x\n\\")),
            (
                "n",
                Json::List(vec![Json::Number(1.5), Json::Number(f64::NAN)]),
            ),
            ("b", Json::Bool(true)),
        ]);
        assert_eq!(
            value.render(),
            r#"{"a\"":"x\u000a\\","n":[1.5,null],"b":true}"#
        );
    }
}
