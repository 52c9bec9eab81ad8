use super::*;

/// A header of the kernel: flags, kind, and the four numbers.
fn header(flags: u8, kind: u8, numbers: [u16; 4]) -> Vec<u8> {
    let mut bytes = vec![flags, kind];
    bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
    bytes
}

fn tcp4(payload: usize) -> Vec<u8> {
    let total = u16::try_from(40 + payload).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0; 12]);
    packet.extend([0x50, 0x10, 0, 0, 0x12, 0x34, 0, 0]);
    packet.resize(40 + payload, 7);
    packet
}

fn tcp6(payload: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(20 + payload).unwrap().to_be_bytes());
    packet.extend([6, 64]);
    packet.extend([0; 32]);
    packet.extend([0; 12]);
    packet.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    packet.resize(60 + payload, 7);
    packet
}

#[test]
fn layer_3_is_a_family_and_a_packet() {
    let form = PacketForm::Layer3;
    for (packet, family) in [(tcp4(1), 2), (tcp6(1), 24)] {
        let (prefix, sent) = {
            let mut read = packet.clone();
            let (prefix, sent) = form.to_channel(&mut read).unwrap();
            (prefix, sent.to_vec())
        };
        assert_eq!((prefix.bytes(), &sent), (&[0, 0, 0, family][..], &packet));
        let message = [prefix.bytes(), &sent].concat();
        assert_eq!(form.to_device(&message), Some((None, &packet[..])));
    }
    assert_eq!(form.to_channel(&mut []), None);
    for short in [&b""[..], &[0, 0, 0], &[0, 0, 0, 2]] {
        assert_eq!(form.to_device(short), None);
    }
    assert_eq!(PacketForm::Layer2.to_device(b""), None);
    assert_eq!(PacketForm::Layer2.to_device(b"x"), Some((None, &b"x"[..])));
}

#[test]
fn a_large_segment_keeps_its_size_and_the_receiver_finds_the_rest() {
    for (packet, kind, start) in [(tcp4(60_000), 1, 20), (tcp6(60_000), 4, 40)] {
        let numbers = [start + 20, 1448, start, 16];
        let mut read = [header(1, kind, numbers), packet.clone()].concat();
        let form = PacketForm::Segments;
        let record = {
            let (prefix, sent) = form.to_channel(&mut read).unwrap();
            assert_eq!(prefix.bytes(), 1448_u16.to_be_bytes());
            [prefix.bytes(), sent].concat()
        };
        let (made, written) = form.to_device(&record).unwrap();
        assert_eq!(made.unwrap().to_vec(), header(1, kind, numbers));
        assert_eq!(written, packet);
    }
}

#[test]
fn a_segment_that_the_kernel_could_not_cut_is_dropped() {
    let with = |change: fn(&mut Vec<u8>)| {
        let mut packet = tcp4(3000);
        change(&mut packet);
        [vec![5, 0xa8], packet].concat()
    };
    let form = PacketForm::Segments;
    assert!(form.to_device(&with(|_| {})).is_some());
    let refused: &[fn(&mut Vec<u8>)] = &[
        |packet| packet[0] = 0x44,
        |packet| packet[0] = 0x4f,
        |packet| packet[0] = 0x55,
        |packet| packet[2] ^= 1,
        |packet| packet[6] = 0x20,
        |packet| packet[7] = 1,
        |packet| packet[9] = 17,
        |packet| packet[32] = 0x40,
        |packet| packet[32] = 0,
        |packet| packet.truncate(3039),
        |packet| packet.clear(),
        |packet| *packet = tcp4(0),
    ];
    for (index, change) in refused.iter().enumerate() {
        assert_eq!(form.to_device(&with(*change)), None, "{index}");
    }
    let smallest = [vec![0, 8], tcp4(3000)].concat();
    assert!(form.to_device(&smallest).is_some());
    let smaller = [vec![0, 7], tcp4(3000)].concat();
    assert_eq!(form.to_device(&smaller), None);
    let mut extended = tcp6(3000);
    extended[6] = 0;
    let extended = [vec![5, 0xa8], extended].concat();
    assert_eq!(form.to_device(&extended), None);
    // A whole packet is the kernel's to judge, and comes without any instruction.
    let (made, packet) = form.to_device(&[0, 0, 1, 2, 3]).unwrap();
    assert_eq!((made, packet), (Some([0; 10]), &[1, 2, 3][..]));
}

#[test]
fn an_open_checksum_is_computed_before_a_packet_is_sent() {
    let form = PacketForm::Segments;
    for (packet, offset) in [(tcp4(5), 16_u16), (tcp4(1000), 16), (tcp4(8), 6)] {
        let mut read = [header(1, 0, [0, 0, 20, offset]), packet].concat();
        let (prefix, sent) = form.to_channel(&mut read).unwrap();
        assert_eq!(prefix.bytes(), [0, 0]);
        // The field held the sum over the pseudo-header; with the checksum in its place, the sum
        // over all is that sum's complement.
        let seed = u16::from_be_bytes(match offset {
            16 => [0x12, 0x34],
            _ => [0, 0],
        });
        let field = usize::from(offset) + 20;
        let mut check = sent[20..].to_vec();
        let at = field - 20;
        let checksum = u16::from_be_bytes([check[at], check[at + 1]]);
        check[at..at + 2].copy_from_slice(&seed.to_be_bytes());
        assert_eq!(checksum, !sum(&check));
    }
    // UDP sends 0xffff for 0, which would mean none.
    let mut zero = vec![0xff, 0xff, 0, 0, 0, 0, 0, 0];
    finish_checksum(&mut zero, 6).unwrap();
    assert_eq!(zero[6..], [0xff, 0xff]);
    // A header of the kernel that points outside drops the packet.
    for numbers in [[0, 0, 2000, 16], [0, 0, 20, 2000], [0, 0, 60, 0]] {
        let mut read = [header(1, 0, numbers), tcp4(20)].concat();
        assert_eq!(form.to_channel(&mut read), None, "{numbers:?}");
    }
    for kind in [2, 3, 5, 0x81] {
        let mut read = [header(1, kind, [40, 1448, 20, 16]), tcp4(20)].concat();
        assert_eq!(form.to_channel(&mut read), None, "{kind}");
    }
    assert_eq!(form.to_channel(&mut [0; 9]), None);
    assert_eq!(form.to_channel(&mut [0; 10]), None);
}
