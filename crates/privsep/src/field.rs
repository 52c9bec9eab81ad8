//! How each type of field is encoded in a message's body: RFC 4251 §5 types through `wire`'s
//! length-checked cursor, lists as a count and that number of items, options as a boolean and the
//! value.

use core::fmt;

use wire::permissions::{Permissions, PermitTarget};
use wire::{DecodeError, Put, Reader};
use zeroize::Zeroizing;

/// One owned field of a message.
pub(crate) trait Field: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
    fn write(&self, out: &mut Vec<u8>);
}

/// Bytes that are wiped on drop and never printed: a password or an answer to a prompt.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the secret bytes; no other method or `Debug` output shows them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Field for Secret {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(reader.string()?.to_vec()))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(&self.0);
    }
}

// `u8` does not implement `Field`, so that `Vec<u8>` can be a `string` while other vectors are
// lists.
impl Field for Vec<u8> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.string()?.to_vec())
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self);
    }
}

impl Field for String {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(reader.utf8()?.to_owned())
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_bytes());
    }
}

impl Field for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(*self);
    }
}

impl Field for u64 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u64()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(*self);
    }
}

impl Field for u16 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        u16::try_from(reader.u32()?).map_err(|_| DecodeError::Malformed("number above 65535"))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::from(*self));
    }
}

impl Field for bool {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Malformed("boolean is neither 0 nor 1")),
        }
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bool(*self);
    }
}

impl Field for Permissions {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_bits(reader.u32()?).ok_or(DecodeError::Malformed("unknown permission"))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.to_bits());
    }
}

impl Field for PermitTarget {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            is_udp: Field::read(reader)?,
            host: Field::read(reader)?,
            port: Field::read(reader)?,
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.is_udp.write(out);
        self.host.write(out);
        self.port.write(out);
    }
}

impl<T: Field> Field for Option<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::read(reader)? {
            Some(T::read(reader)?)
        } else {
            None
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bool(self.is_some());
        if let Some(value) = self {
            value.write(out);
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        // The count reserves no memory: a false count fails when the frame's bytes run out.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::read(reader)?);
        }
        Ok(items)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(self.len()).unwrap_or(u32::MAX));
        for item in self {
            item.write(out);
        }
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

/// Declares a struct whose fields are encoded in the order of their declaration.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $type,)*
        }

        impl $crate::field::Field for $name {
            fn read(reader: &mut wire::Reader<'_>) -> Result<Self, wire::DecodeError> {
                let _ = &reader;
                Ok(Self { $($field: <$type as $crate::field::Field>::read(reader)?,)* })
            }
            fn write(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $($crate::field::Field::write(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use record;
