//! Numbers that identify watched descriptors and timers in the driver's notices. Those of forwarded
//! connections begin at [`driver::forward::FIRST_TOKEN`].

/// The meaning of a watched descriptor or timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The monitor closed its end.
    Monitor,
    /// A child ended; the number is its serial.
    Child(u64),
    /// Timer to check an ended child's output again; the number is the child's serial.
    Drain(u64),
    /// Timer to free the login's memory, [`REST`](sys::memory::REST) after the login.
    Rest,
    /// Timer of UnusedConnectionTimeout.
    Unused,
    /// An SFTP thread has notified its channel; the number is the channel's serial.
    Files(u64),
    /// A signal that ends this process.
    Signal,
    /// A new connection wants the port of this listener.
    Rendezvous(u64),
    /// Timer: has the client shown a sign of life?
    Probe,
    /// An older connection has decided about its port, or the time for that is over.
    Claim,
    /// Timer: the next report of traffic, for the metrics.
    Report,
}

const KIND_SHIFT: u32 = 56;
const SERIAL_MASK: u64 = (1 << KIND_SHIFT) - 1;

impl Token {
    /// The number for the driver. Serials count from 0 and never reach 2^56.
    pub(super) fn number(self) -> u64 {
        let (kind, serial) = match self {
            Self::Monitor => (0, 0),
            Self::Child(serial) => (1, serial),
            Self::Drain(serial) => (2, serial),
            Self::Rest => (3, 0),
            Self::Files(serial) => (4, serial),
            Self::Unused => (5, 0),
            Self::Signal => (6, 0),
            Self::Rendezvous(listener) => (7, listener),
            Self::Probe => (8, 0),
            Self::Claim => (9, 0),
            Self::Report => (10, 0),
        };
        (kind << KIND_SHIFT) | (serial & SERIAL_MASK)
    }

    /// The token of a number made by [`number`](Self::number).
    pub(super) fn from_number(number: u64) -> Option<Self> {
        let serial = number & SERIAL_MASK;
        Some(match number >> KIND_SHIFT {
            0 => Self::Monitor,
            1 => Self::Child(serial),
            2 => Self::Drain(serial),
            3 => Self::Rest,
            4 => Self::Files(serial),
            5 => Self::Unused,
            6 => Self::Signal,
            7 => Self::Rendezvous(serial),
            8 => Self::Probe,
            9 => Self::Claim,
            10 => Self::Report,
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
            Token::Drain(77),
            Token::Rest,
            Token::Files(77),
            Token::Unused,
            Token::Signal,
            Token::Rendezvous(77),
            Token::Probe,
            Token::Claim,
            Token::Report,
        ] {
            assert_eq!(Token::from_number(token.number()), Some(token));
        }
        assert_eq!(Token::from_number(u64::MAX), None);
    }
}
