use super::*;
use crate::pty::Pty;
use rustix::termios::{ControlModes, InputModes, OutputModes};
use std::sync::Mutex;

/// Raw mode exists once per process, so tests of it run one at a time.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn raw_mode_ends_with_the_guard() {
    let _turn = TURN.lock().unwrap();
    let pty = Pty::open().unwrap();
    let before = attributes(&pty.slave).unwrap();
    let mut raw = RawMode::enter(&pty.slave).unwrap();
    let during = attributes(&pty.slave).unwrap();
    assert!(
        !during
            .local_modes
            .intersects(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    );
    assert!(!during.output_modes.contains(OutputModes::OPOST));
    assert!(RawMode::enter(&pty.slave).is_err());
    raw.suspend().unwrap();
    assert_eq!(
        attributes(&pty.slave).unwrap().local_modes,
        before.local_modes
    );
    raw.resume().unwrap();
    assert!(
        !attributes(&pty.slave)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO)
    );
    drop(raw);
    let after = attributes(&pty.slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.output_modes, before.output_modes);
    assert_eq!(after.input_modes, before.input_modes);
    RawMode::enter(&pty.slave).unwrap();
}

#[test]
fn no_terminal_no_raw_mode() {
    let _turn = TURN.lock().unwrap();
    assert!(RawMode::enter(crate::io::null().unwrap()).is_err());
    let pty = Pty::open().unwrap();
    RawMode::enter(&pty.slave).unwrap();
}

#[test]
fn window_sizes_are_cut_to_what_the_kernel_takes() {
    let pty = Pty::open().unwrap();
    let size = WindowSize::from_wire(132, 50, u32::MAX, 0);
    assert_eq!(size.width_px, u16::MAX);
    set_window_size(&pty.master, size).unwrap();
    assert_eq!(window_size(&pty.slave).unwrap(), size);
    let huge = WindowSize::from_wire(u32::MAX, u32::MAX, 0, 0);
    set_window_size(&pty.master, huge).unwrap();
}

#[test]
fn modes_survive_the_wire() {
    let from = Pty::open().unwrap();
    let to = Pty::open().unwrap();
    let mut unusual = attributes(&from.slave).unwrap();
    unusual.local_modes.remove(LocalModes::ECHO);
    unusual.local_modes.insert(LocalModes::NOFLSH);
    unusual.input_modes.remove(InputModes::ICRNL);
    unusual
        .input_modes
        .insert(InputModes::IUTF8 | InputModes::IXANY);
    unusual.output_modes.remove(OutputModes::ONLCR);
    unusual.special_codes[SpecialCodeIndex::VINTR] = 0;
    unusual.special_codes[SpecialCodeIndex::VERASE] = 8;
    unusual.set_speed(9600).unwrap();
    set_attributes(&from.slave, &unusual).unwrap();
    let list = encode_modes(&attributes(&from.slave).unwrap());
    assert_eq!(list.last(), Some(&0));
    let report = apply_modes(&to.slave, &list).unwrap();
    assert_eq!(report.applied * 5 + 1, list.len());
    assert_eq!((report.ignored, report.malformed), (0, false));
    let arrived = attributes(&to.slave).unwrap();
    assert_eq!(arrived.local_modes, unusual.local_modes);
    assert_eq!(arrived.input_modes, unusual.input_modes);
    assert_eq!(arrived.output_modes, unusual.output_modes);
    assert_eq!(arrived.output_speed(), 9600);
    assert_eq!(arrived.special_codes[SpecialCodeIndex::VINTR], 0);
    assert_eq!(arrived.special_codes[SpecialCodeIndex::VERASE], 8);
    assert_eq!(
        arrived.control_modes & ControlModes::CSIZE,
        ControlModes::CS8
    );
}

fn some_termios() -> Termios {
    attributes(Pty::open().unwrap().slave).unwrap()
}

#[test]
fn any_list_of_modes_is_walked_once_and_without_panic() {
    let mut termios = some_termios();
    // More modes than there are opcodes, all unknown.
    let many: Vec<u8> = (0..10_000).flat_map(|_| [159, 0, 0, 0, 1]).collect();
    let report = decode_modes(&many, &mut termios);
    assert_eq!((report.ignored, report.malformed), (10_000, false));
    // Undefined opcode, short value, empty list, end mark first.
    for (list, malformed) in [
        (&[160, 0, 0, 0, 1][..], true),
        (&[255], true),
        (&[1, 0, 0, 3], true),
        (&[1], true),
        (&[], false),
        (&[0, 255, 255], false),
    ] {
        let report = decode_modes(list, &mut termios);
        assert_eq!(report.malformed, malformed, "{list:?}");
        assert_eq!(report.applied, 0);
    }
    // Every opcode with extreme values.
    for opcode in 1..=255_u8 {
        for value in [0, 1, 255, 256, u32::MAX] {
            let mut list = vec![opcode];
            list.extend_from_slice(&value.to_be_bytes());
            decode_modes(&list, &mut termios);
        }
    }
}

#[test]
fn the_character_size_takes_the_larger_of_both() {
    let size = |list: &[[u8; 2]]| {
        let mut termios = some_termios();
        let bytes: Vec<u8> = list
            .iter()
            .flat_map(|[op, on]| [*op, 0, 0, 0, *on])
            .collect();
        decode_modes(&bytes, &mut termios);
        termios.control_modes & ControlModes::CSIZE
    };
    assert_eq!(size(&[[90, 1], [91, 1]]), ControlModes::CS8);
    assert_eq!(size(&[[90, 0], [91, 1]]), ControlModes::CS8);
    assert_eq!(size(&[[90, 1], [91, 0]]), ControlModes::CS7);
    assert_eq!(size(&[]), ControlModes::CS8);
}

#[test]
fn a_secret_is_read_without_echo() {
    let _turn = crate::signals::NOTED_TEST_LOCK.lock().unwrap();
    let pty = Pty::open().unwrap();
    let secret = std::thread::scope(|scope| {
        let asked = scope.spawn(|| prompt::ask_on(&pty.slave, "Password: ", false));
        // When the prompt is shown, echo is off and earlier input is discarded.
        let mut seen = Vec::new();
        while !seen.ends_with(b"Password: ") {
            let mut byte = [0; 1];
            assert_eq!(crate::io::read(&pty.master, &mut byte).unwrap(), 1);
            seen.extend_from_slice(&byte);
        }
        crate::io::write_all(&pty.master, b"s3cret\r").unwrap();
        asked.join().unwrap()
    });
    assert_eq!(&secret.unwrap()[..], b"s3cret");
    let mut rest = [0; 2];
    for byte in rest.chunks_mut(1) {
        assert_eq!(crate::io::read(&pty.master, byte).unwrap(), 1);
    }
    assert_eq!(&rest, b"\r\n");
    assert_eq!(crate::io::bytes_available(&pty.master).unwrap(), 0);
    let after = attributes(&pty.slave).unwrap();
    assert!(after.local_modes.contains(LocalModes::ECHO));
}

#[test]
fn end_of_file_and_too_long_answers_are_errors() {
    let _turn = crate::signals::NOTED_TEST_LOCK.lock().unwrap();
    for (typed, wanted_long) in [(&b"\x04"[..], false), (&[b'a'; 1500][..], true)] {
        let pty = Pty::open().unwrap();
        let answer = std::thread::scope(|scope| {
            let asked = scope.spawn(|| prompt::ask_on(&pty.slave, "?", true));
            let mut byte = [0; 1];
            crate::io::read(&pty.master, &mut byte).unwrap();
            assert_eq!(byte, *b"?");
            crate::io::set_nonblocking(&pty.master, true).unwrap();
            crate::io::write_all(&pty.master, typed).unwrap();
            if wanted_long {
                crate::io::write_all(&pty.master, b"\r").unwrap();
            }
            asked.join().unwrap()
        });
        match answer {
            Err(PromptError::TooLong) => assert!(wanted_long),
            Err(PromptError::EndOfFile) => assert!(!wanted_long),
            other => panic!("{other:?}"),
        }
    }
}
