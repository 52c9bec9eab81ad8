//! A length-checked binary form for values, used between processes of one build (see `server::codec`).
//!
//! Lengths and counts are big-endian 32-bit numbers. The bytes that remain bound each count, so a
//! damaged blob cannot make the reader allocate more.

use crate::address::ListenEntry;
use crate::error::ConfigError;
use crate::printing::written;
use crate::types::{Subsystem, Variable};
use crate::value::{Table, Value, Values};

pub(crate) const OPTIONS_MAGIC: &[u8] = b"fulmar server options 2";
/// Initial capacity for encoded options, bytes: somewhat more than the defaults need.
pub(crate) const ENCODED_OPTIONS_BYTES: usize = 4096;

/// Writes an encoded configuration.
pub(crate) struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(magic: &[u8]) -> Encoder {
        Encoder {
            out: magic.to_vec(),
        }
    }

    /// As [`new`](Self::new), with capacity for `bytes`.
    pub(crate) fn with_room(magic: &[u8], bytes: usize) -> Encoder {
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(magic);
        Encoder { out }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    /// Writes a count or length. Configurations are far smaller than 4 GiB, see `include`.
    pub(crate) fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.out.extend_from_slice(&count.to_be_bytes());
    }

    /// Writes a row of a table of keywords, which has far fewer than 65,536 rows.
    pub(crate) fn row(&mut self, index: usize) {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        self.out.extend_from_slice(&index.to_be_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Flag(flag) => {
                self.byte(0);
                self.flag(*flag);
            }
            Value::Number(number) => {
                self.byte(1);
                self.out.extend_from_slice(&number.to_be_bytes());
            }
            Value::Word(word) => {
                self.byte(2);
                self.text(word);
            }
            Value::Words(words) => {
                self.byte(3);
                self.words(words);
            }
            Value::Penalties(parts) => {
                self.byte(4);
                self.count(parts.len());
                for (number, value) in parts {
                    self.byte(*number);
                    self.out.extend_from_slice(&value.to_be_bytes());
                }
            }
            Value::Ports(ports) => {
                self.byte(6);
                self.count(ports.len());
                for port in ports {
                    self.port(*port);
                }
            }
            Value::Listeners(entries) => {
                self.byte(7);
                self.count(entries.len());
                for entry in entries {
                    self.text(&entry.host);
                    self.port(entry.port.unwrap_or(0));
                    self.text(entry.rdomain.as_deref().unwrap_or_default());
                }
            }
            Value::Variables(variables) => {
                self.byte(8);
                self.count(variables.len());
                for variable in variables {
                    self.text(&variable.name);
                    self.text(&variable.value);
                }
            }
            Value::Subsystems(subsystems) => {
                self.byte(9);
                self.count(subsystems.len());
                for subsystem in subsystems {
                    self.text(&subsystem.name);
                    self.text(&subsystem.command);
                }
            }
            Value::Choice(choice) => {
                self.byte(5);
                self.count(1);
                self.text(choice.word);
            }
            other => {
                self.byte(5);
                self.words(&written(other));
            }
        }
    }

    fn port(&mut self, port: u16) {
        self.out.extend_from_slice(&port.to_be_bytes());
    }

    fn words(&mut self, words: &[String]) {
        self.count(words.len());
        for word in words {
            self.text(word);
        }
    }

    /// Writes a value that [`Decoder::encoded_value`] returned.
    pub(crate) fn encoded(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Encodes values for `ServerOptions::decode`.
pub(crate) fn encoded_options(values: &Values, aes_hardware: bool) -> Vec<u8> {
    let rows = || (0..values.len()).filter_map(|index| Some((index, values.at(index)?)));
    let mut out = Encoder::with_room(OPTIONS_MAGIC, ENCODED_OPTIONS_BYTES);
    out.flag(aes_hardware);
    out.count(rows().count());
    for (index, value) in rows() {
        out.row(index);
        out.value(value);
    }
    out.finish()
}

/// Most words for which capacity is reserved before they are read.
const MAX_ROOM_WORDS: usize = 32;

/// Reads an encoded configuration.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

const SHORT: ConfigError = ConfigError::Damaged("it ends too early");
const UNKNOWN: ConfigError = ConfigError::Damaged("unknown kind of value");

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8], magic: &[u8]) -> Result<Decoder<'a>, ConfigError> {
        match bytes.strip_prefix(magic) {
            Some(rest) => Ok(Decoder { rest }),
            None => Err(ConfigError::Damaged(
                "it is not an encoded configuration of this build",
            )),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ConfigError> {
        let (head, tail) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ConfigError> {
        self.take(1)?.first().copied().ok_or(SHORT)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, ConfigError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ConfigError::Damaged("a flag is neither 0 nor 1")),
        }
    }

    /// Reads a count or length, at most the number of bytes that remain, since each counted item
    /// takes at least one.
    pub(crate) fn count(&mut self) -> Result<usize, ConfigError> {
        let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| SHORT)?;
        let count = usize::try_from(u32::from_be_bytes(bytes)).map_err(|_| SHORT)?;
        if count > self.rest.len() {
            return Err(SHORT);
        }
        Ok(count)
    }

    /// Reads a row of a table of `rows` rows.
    pub(crate) fn row(&mut self, rows: usize) -> Result<usize, ConfigError> {
        let bytes: [u8; 2] = self.take(2)?.try_into().map_err(|_| SHORT)?;
        let index = usize::from(u16::from_be_bytes(bytes));
        if index < rows {
            Ok(index)
        } else {
            Err(ConfigError::Damaged("unknown keyword"))
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, ConfigError> {
        let length = self.count()?;
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ConfigError::Damaged("text is not UTF-8")),
        }
    }

    /// Reads a value of a row of `table`.
    pub(crate) fn value(&mut self, table: Table, row: usize) -> Result<Value, ConfigError> {
        Ok(match self.byte()? {
            0 => Value::Flag(self.flag()?),
            1 => Value::Number(i64::from_be_bytes(self.eight()?)),
            2 => Value::Word(self.text()?),
            3 => Value::Words(self.words()?),
            4 => {
                let part =
                    |input: &mut Self| Ok((input.byte()?, u64::from_be_bytes(input.eight()?)));
                Value::Penalties(self.each(part)?)
            }
            5 => {
                let words = self.words()?;
                let keyword = table.get(row).ok_or(UNKNOWN)?;
                let value = keyword.kind.read(keyword.name, &words, "");
                value.map_err(|_| ConfigError::Damaged("a value that cannot be read"))?
            }
            kind => self.list(kind)?,
        })
    }

    /// Reads a list whose entries have a type of their own.
    fn list(&mut self, kind: u8) -> Result<Value, ConfigError> {
        Ok(match kind {
            6 => Value::Ports(self.each(Decoder::port)?),
            7 => Value::Listeners(self.each(|input| {
                let (host, port, rdomain) = (input.text()?, input.port()?, input.text()?);
                Ok(ListenEntry {
                    host,
                    port: Some(port).filter(|port| *port != 0),
                    rdomain: Some(rdomain).filter(|name| !name.is_empty()),
                })
            })?),
            8 => Value::Variables(self.each(|input| {
                let (name, value) = (input.text()?, input.text()?);
                Ok(Variable { name, value })
            })?),
            9 => Value::Subsystems(self.each(|input| {
                let (name, command) = (input.text()?, input.text()?);
                Ok(Subsystem { name, command })
            })?),
            _ => return Err(UNKNOWN),
        })
    }

    fn each<T>(
        &mut self,
        entry: impl Fn(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<Vec<T>, ConfigError> {
        let count = self.count()?;
        let mut entries = Vec::with_capacity(count.min(MAX_ROOM_WORDS));
        for _ in 0..count {
            entries.push(entry(self)?);
        }
        Ok(entries)
    }

    fn port(&mut self) -> Result<u16, ConfigError> {
        let bytes: [u8; 2] = self.take(2)?.try_into().map_err(|_| SHORT)?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn eight(&mut self) -> Result<[u8; 8], ConfigError> {
        self.take(8)?.try_into().map_err(|_| SHORT)
    }

    fn words(&mut self) -> Result<Vec<String>, ConfigError> {
        self.each(Decoder::text)
    }

    /// The bytes of the next value, not decoded.
    pub(crate) fn encoded_value(&mut self) -> Result<&'a [u8], ConfigError> {
        let whole = self.rest;
        match self.byte()? {
            0 => self.take(1).map(drop)?,
            1 => self.take(8).map(drop)?,
            2 => self.skip_text()?,
            3 | 5 => {
                for _ in 0..self.count()? {
                    self.skip_text()?;
                }
            }
            4 => {
                for _ in 0..self.count()? {
                    self.take(9)?;
                }
            }
            kind => self.list(kind).map(drop)?,
        }
        let length = whole.len() - self.rest.len();
        Ok(whole.get(..length).unwrap_or_default())
    }

    fn skip_text(&mut self) -> Result<(), ConfigError> {
        let length = self.count()?;
        self.take(length).map(drop)
    }

    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Damaged("bytes are left over"))
        }
    }
}
