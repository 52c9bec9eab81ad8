//! Numbers that identify watched descriptors and timers in the driver's notices.

/// The meaning of a watched descriptor or timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The monitor closed its end.
    Monitor,
    /// A child ended; the number is its serial.
    Child(u64),
    /// An outgoing connection is established or has failed; the number is its serial.
    Connect(u64),
    /// An outgoing connection has taken too long; the number is its serial.
    GiveUp(u64),
    /// A resolver thread has finished.
    Resolver,
    /// Timer to check an ended child's output again; the number is the child's serial.
    Drain(u64),
    /// Timer to free the login's memory, [`REST`](sys::memory::REST) after the login.
    Rest,
    /// An SFTP thread has notified its channel; the number is the channel's serial.
    Files(u64),
}

const KIND_SHIFT: u32 = 56;
const SERIAL_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl Token {
    /// The number for the driver. Serials count from 0 and never reach 2^56.
    pub(super) fn number(self) -> u64 {
        let (kind, serial) = match self {
            Self::Monitor => (0, 0),
            Self::Child(serial) => (1, serial),
            Self::Connect(serial) => (2, serial),
            Self::Resolver => (3, 0),
            Self::Drain(serial) => (4, serial),
            Self::GiveUp(serial) => (5, serial),
            Self::Rest => (6, 0),
            Self::Files(serial) => (7, serial),
        };
        (kind << KIND_SHIFT) | (serial & SERIAL_MASK)
    }

    /// The token of a number made by [`number`](Self::number).
    pub(super) fn from_number(number: u64) -> Option<Self> {
        let serial = number & SERIAL_MASK;
        Some(match number >> KIND_SHIFT {
            0 => Self::Monitor,
            1 => Self::Child(serial),
            2 => Self::Connect(serial),
            3 => Self::Resolver,
            4 => Self::Drain(serial),
            5 => Self::GiveUp(serial),
            6 => Self::Rest,
            7 => Self::Files(serial),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_survives_the_way_through_the_driver() {
        for token in [
            Token::Monitor,
            Token::Child(0),
            Token::Child(77),
            Token::Connect(1),
            Token::Resolver,
            Token::Drain(77),
            Token::GiveUp(77),
            Token::Rest,
            Token::Files(77),
        ] {
            assert_eq!(Token::from_number(token.number()), Some(token));
        }
        assert_eq!(Token::from_number(u64::MAX), None);
    }
}
