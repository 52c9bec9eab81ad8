//! A strict reader of JSON (RFC 8259) with a limited depth, for the output of `--json`.

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Value>),
    /// An object, in its order.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a text that consists of one value.
    ///
    /// # Errors
    /// The error, with the rest of the text.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader(text.trim());
        let value = reader.value(0)?;
        match reader.0.trim_start() {
            "" => Ok(value),
            _ => Err(reader.wrong("more behind the value")),
        }
    }

    /// A member of an object.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members
                .iter()
                .find(|(each, _)| each == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// A string's letters.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

const DEEPEST: u32 = 16;

struct Reader<'t>(&'t str);

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        let rest: String = self.0.chars().take(40).collect();
        format!("{what}: {rest:?}")
    }

    fn takes(&mut self, literal: &str) -> bool {
        let text = self.0.trim_start();
        match text.strip_prefix(literal) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, literal: &str) -> Result<(), String> {
        match self.takes(literal) {
            true => Ok(()),
            false => Err(self.wrong(&format!("no {literal:?}"))),
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(self.wrong("too deep"));
        }
        self.0 = self.0.trim_start();
        for (word, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ] {
            if self.takes(word) {
                return Ok(value);
            }
        }
        match self.0.chars().next() {
            Some('"') => Ok(Value::Text(self.string()?)),
            Some('[') => {
                let mut list = Vec::new();
                self.members("[", "]", |reader| {
                    list.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::List(list))
            }
            Some('{') => {
                let mut members: Vec<(String, Value)> = Vec::new();
                self.members("{", "}", |reader| {
                    reader.0 = reader.0.trim_start();
                    let name = reader.string()?;
                    if members.iter().any(|(each, _)| *each == name) {
                        return Err(reader.wrong(&format!("{name} twice")));
                    }
                    reader.expect(":")?;
                    members.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Value::Object(members))
            }
            _ => self.number(),
        }
    }

    fn members(
        &mut self,
        begin: &str,
        end: &str,
        mut each: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect(begin)?;
        if self.takes(end) {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.takes(end) {
                return Ok(());
            }
            self.expect(",")?;
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
        let end = self.0.find(|letter| !is_part(letter));
        let (number, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        let begins = number.strip_prefix('-').unwrap_or(number);
        let plain = begins.starts_with(|letter: char| letter.is_ascii_digit())
            && !(begins.starts_with('0') && begins.chars().nth(1).is_some_and(|c| c != '.'));
        match number.parse() {
            Ok(value) if plain => {
                self.0 = rest;
                Ok(Value::Number(value))
            }
            _ => Err(self.wrong("no value")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let Some(rest) = self.0.strip_prefix('"') else {
            return Err(self.wrong("no string"));
        };
        let mut text = String::new();
        let mut letters = rest.chars();
        loop {
            match letters.next() {
                Some('"') => {
                    self.0 = letters.as_str();
                    return Ok(text);
                }
                Some('\\') => {
                    let letter = letters.next();
                    text.push(match letter {
                        Some(same @ ('"' | '\\' | '/')) => same,
                        Some('b') => '\u{8}',
                        Some('f') => '\u{c}',
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('t') => '\t',
                        Some('u') => {
                            let digits: String = letters.by_ref().take(4).collect();
                            let code = u32::from_str_radix(&digits, 16).ok();
                            match code.and_then(char::from_u32) {
                                Some(letter) if digits.len() == 4 => letter,
                                _ => return Err(self.wrong("a bad \\u in")),
                            }
                        }
                        _ => return Err(self.wrong("a bad escape in")),
                    });
                }
                Some(letter) if letter >= ' ' => text.push(letter),
                _ => return Err(self.wrong("a string that does not end")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_what_is_none_is_refused() {
        let value = Value::read(r#" {"a":[1,-2.5e1,true,null],"b":{"c":"x\n\u0041\""}, "d":[]} "#);
        let value = value.unwrap();
        let list = [
            Value::Number(1.0),
            Value::Number(-25.0),
            Value::Bool(true),
            Value::Null,
        ];
        assert_eq!(value.find("a"), Some(&Value::List(list.to_vec())));
        let text = value
            .find("b")
            .and_then(|b| b.find("c"))
            .and_then(Value::text);
        assert_eq!(text, Some("x\nA\""));
        assert_eq!(value.find("d"), Some(&Value::List(Vec::new())));
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\":1,\"a\":2}",
            "01",
            "+1",
            ".5",
            "nul",
            "\"a",
            "\"\\x\"",
            "\"\t\"",
            "1 2",
            "{a:1}",
            "NaN",
            "[1 2]",
            "\"\\u12\"",
        ] {
            assert!(Value::read(bad).is_err(), "{bad}");
        }
        assert!(Value::read(&"[".repeat(99)).is_err());
    }
}
