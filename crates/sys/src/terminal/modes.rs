//! Encoded terminal modes (RFC 4254 §8, `IUTF8` from RFC 8160): pairs of an opcode and a 32-bit
//! value, ended by opcode 0.
//!
//! The list comes from a peer. It is read once, whatever its length; unknown opcodes below 160 are
//! skipped with their value, the first opcode from 160 on ends the list.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OutputModes, SpecialCodeIndex, Termios,
};

const TTY_OP_END: u8 = 0;
const TTY_OP_ISPEED: u8 = 128;
const TTY_OP_OSPEED: u8 = 129;
/// The smallest opcode without a defined argument length.
const FIRST_UNDEFINED: u8 = 160;
const OP_CS7: u8 = 90;
const OP_CS8: u8 = 91;
/// Wire value of a disabled special character; Linux's own value is 0.
const WIRE_DISABLED: u32 = 255;

/// VSTATUS, VDSUSP and VFLUSH do not exist on Linux.
const CHARACTERS: [(u8, SpecialCodeIndex); 14] = [
    (1, SpecialCodeIndex::VINTR),
    (2, SpecialCodeIndex::VQUIT),
    (3, SpecialCodeIndex::VERASE),
    (4, SpecialCodeIndex::VKILL),
    (5, SpecialCodeIndex::VEOF),
    (6, SpecialCodeIndex::VEOL),
    (7, SpecialCodeIndex::VEOL2),
    (8, SpecialCodeIndex::VSTART),
    (9, SpecialCodeIndex::VSTOP),
    (10, SpecialCodeIndex::VSUSP),
    (12, SpecialCodeIndex::VREPRINT),
    (13, SpecialCodeIndex::VWERASE),
    (14, SpecialCodeIndex::VLNEXT),
    (18, SpecialCodeIndex::VDISCARD),
];

const INPUT: [(u8, InputModes); 13] = [
    (30, InputModes::IGNPAR),
    (31, InputModes::PARMRK),
    (32, InputModes::INPCK),
    (33, InputModes::ISTRIP),
    (34, InputModes::INLCR),
    (35, InputModes::IGNCR),
    (36, InputModes::ICRNL),
    (37, InputModes::IUCLC),
    (38, InputModes::IXON),
    (39, InputModes::IXANY),
    (40, InputModes::IXOFF),
    (41, InputModes::IMAXBEL),
    (42, InputModes::IUTF8),
];

const LOCAL: [(u8, LocalModes); 13] = [
    (50, LocalModes::ISIG),
    (51, LocalModes::ICANON),
    (52, LocalModes::XCASE),
    (53, LocalModes::ECHO),
    (54, LocalModes::ECHOE),
    (55, LocalModes::ECHOK),
    (56, LocalModes::ECHONL),
    (57, LocalModes::NOFLSH),
    (58, LocalModes::TOSTOP),
    (59, LocalModes::IEXTEN),
    (60, LocalModes::ECHOCTL),
    (61, LocalModes::ECHOKE),
    (62, LocalModes::PENDIN),
];

const OUTPUT: [(u8, OutputModes); 6] = [
    (70, OutputModes::OPOST),
    (71, OutputModes::OLCUC),
    (72, OutputModes::ONLCR),
    (73, OutputModes::OCRNL),
    (74, OutputModes::ONOCR),
    (75, OutputModes::ONLRET),
];

const CONTROL: [(u8, ControlModes); 2] = [(92, ControlModes::PARENB), (93, ControlModes::PARODD)];

/// Result of decoding a list of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModesReport {
    /// Number of modes that were applied.
    pub applied: usize,
    /// Number of modes that are unknown or have an impossible value.
    pub ignored: usize,
    /// True if the list ended inside a mode or with an undefined opcode; the modes before that were
    /// applied.
    pub malformed: bool,
}

/// Encodes the modes of a terminal for a pty request, including the end mark.
#[must_use]
pub fn encode_modes(termios: &Termios) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 * 52 + 1);
    let mut put = |opcode: u8, value: u32| {
        out.push(opcode);
        out.extend_from_slice(&value.to_be_bytes());
    };
    put(TTY_OP_OSPEED, termios.output_speed());
    put(TTY_OP_ISPEED, termios.input_speed());
    for (opcode, index) in CHARACTERS {
        let byte = termios.special_codes[index];
        put(
            opcode,
            if byte == 0 {
                WIRE_DISABLED
            } else {
                u32::from(byte)
            },
        );
    }
    for (opcode, flag) in INPUT {
        put(opcode, u32::from(termios.input_modes.contains(flag)));
    }
    for (opcode, flag) in LOCAL {
        put(opcode, u32::from(termios.local_modes.contains(flag)));
    }
    for (opcode, flag) in OUTPUT {
        put(opcode, u32::from(termios.output_modes.contains(flag)));
    }
    let size = termios.control_modes & ControlModes::CSIZE;
    put(OP_CS7, u32::from(size == ControlModes::CS7));
    put(OP_CS8, u32::from(size == ControlModes::CS8));
    for (opcode, flag) in CONTROL {
        put(opcode, u32::from(termios.control_modes.contains(flag)));
    }
    out.push(TTY_OP_END);
    out
}

/// Applies the modes of `list` to `termios`.
pub fn decode_modes(mut list: &[u8], termios: &mut Termios) -> ModesReport {
    let mut report = ModesReport::default();
    loop {
        let Some((&opcode, rest)) = list.split_first() else {
            // Some clients send no end mark.
            return report;
        };
        if opcode == TTY_OP_END {
            return report;
        }
        let Some((value, rest)) = rest
            .split_first_chunk::<4>()
            .filter(|_| opcode < FIRST_UNDEFINED)
        else {
            report.malformed = true;
            return report;
        };
        if set_mode(opcode, u32::from_be_bytes(*value), termios) {
            report.applied = report.applied.saturating_add(1);
        } else {
            report.ignored = report.ignored.saturating_add(1);
        }
        list = rest;
    }
}

/// Reads the modes of a terminal, applies `list` to them and sets them.
///
/// # Errors
/// The kernel's error; a malformed list is not an error.
pub fn apply_modes(terminal: impl AsFd, list: &[u8]) -> io::Result<ModesReport> {
    let terminal = terminal.as_fd();
    let mut termios = super::attributes(terminal)?;
    let report = decode_modes(list, &mut termios);
    super::set_attributes(terminal, &termios)?;
    Ok(report)
}

fn set_mode(opcode: u8, value: u32, termios: &mut Termios) -> bool {
    let on = value != 0;
    if let Some((_, index)) = CHARACTERS.iter().find(|(known, _)| *known == opcode) {
        let byte = match value {
            WIRE_DISABLED => 0,
            value => match u8::try_from(value) {
                Ok(byte) => byte,
                Err(_) => return false,
            },
        };
        termios.special_codes[*index] = byte;
    } else if let Some((_, flag)) = INPUT.iter().find(|(known, _)| *known == opcode) {
        termios.input_modes.set(*flag, on);
    } else if let Some((_, flag)) = LOCAL.iter().find(|(known, _)| *known == opcode) {
        termios.local_modes.set(*flag, on);
    } else if let Some((_, flag)) = OUTPUT.iter().find(|(known, _)| *known == opcode) {
        termios.output_modes.set(*flag, on);
    } else if let Some((_, flag)) = CONTROL.iter().find(|(known, _)| *known == opcode) {
        termios.control_modes.set(*flag, on);
    } else {
        return match opcode {
            OP_CS7 | OP_CS8 => {
                set_size(opcode, on, termios);
                true
            }
            TTY_OP_ISPEED => value != 0 && termios.set_input_speed(value).is_ok(),
            TTY_OP_OSPEED => value != 0 && termios.set_output_speed(value).is_ok(),
            _ => false,
        };
    }
    true
}

/// If the list has both sizes, the larger one wins in either order: some clients send both.
fn set_size(opcode: u8, on: bool, termios: &mut Termios) {
    let eight = termios.control_modes & ControlModes::CSIZE == ControlModes::CS8;
    let becomes_seven = match opcode {
        OP_CS7 => on && !eight,
        _ => !on && eight,
    };
    if on && opcode == OP_CS8 {
        termios.control_modes |= ControlModes::CS8;
    } else if becomes_seven {
        termios.control_modes.remove(ControlModes::CSIZE);
        termios.control_modes |= ControlModes::CS7;
    }
}
