use alloc::vec;
use alloc::vec::Vec;

use crate::message::{self, Encode, MESSAGES};
use crate::{DecodeError, Mpint, NameList, Put, Reader};

#[test]
fn mpint_is_written_as_the_rfc_shows() {
    // RFC 4251 §5 examples (the non-negative ones).
    let cases: [(&[u8], &[u8]); 3] = [
        (&[], &[0, 0, 0, 0]),
        (
            &[0x09, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7],
            &[0, 0, 0, 8, 0x09, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7],
        ),
        (&[0x80], &[0, 0, 0, 2, 0, 0x80]),
    ];
    for (magnitude, wire) in cases {
        let mut out = Vec::new();
        out.put_mpint(magnitude);
        assert_eq!(out, wire);
        assert_eq!(Reader::new(&out).mpint().unwrap().magnitude(), magnitude);
    }
}

#[test]
fn negative_and_giant_mpints_are_refused() {
    assert!(matches!(
        Reader::new(&[0, 0, 0, 1, 0x80]).mpint(),
        Err(DecodeError::Malformed(_))
    ));
    let mut giant = Vec::new();
    giant.put_string(&vec![1; 3000]);
    assert!(matches!(
        Reader::new(&giant).mpint(),
        Err(DecodeError::TooLong { .. })
    ));
}

#[test]
fn lengths_past_the_end_are_truncation() {
    assert_eq!(
        Reader::new(&[0xff, 0xff, 0xff, 0xff, 1]).string(),
        Err(DecodeError::Truncated)
    );
    assert_eq!(Reader::new(&[0, 0]).u32(), Err(DecodeError::Truncated));
}

#[test]
fn name_lists_refuse_control_bytes_and_pass_over_empty_names() {
    let mut out = Vec::new();
    out.put_names(["a", "b@c"]);
    assert_eq!(out, b"\0\0\0\x05a,b@c");
    assert!(NameList::new("a\nb").is_err());
    assert_eq!(
        NameList::new("a,,b").unwrap().iter().collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(NameList::new("").unwrap().first(), None);
}

#[test]
fn mpint_bits_counts_significant_bits() {
    assert_eq!(Mpint::from_magnitude(&[0, 0, 1]).bits(), 1);
    assert_eq!(Mpint::from_magnitude(&[0x80, 0]).bits(), 16);
    assert_eq!(Mpint::from_magnitude(&[]).bits(), 0);
}

#[test]
fn messages_come_back_as_they_went() {
    let request = message::ChannelRequest {
        recipient_channel: 7,
        name: b"exec",
        want_reply: true,
        fields: crate::Rest(b"\0\0\0\x04true"),
    };
    assert_eq!(
        message::ChannelRequest::decode(&request.encode()),
        Ok(request)
    );
    let mut bytes = message::ChannelEof {
        recipient_channel: 1,
    }
    .encode();
    bytes.push(0);
    assert_eq!(
        message::ChannelEof::decode(&bytes),
        Err(DecodeError::TrailingBytes)
    );
    assert_eq!(
        message::NewKeys::decode(&[20]),
        Err(DecodeError::WrongMessage {
            expected: 21,
            got: 20
        })
    );
}

#[test]
fn every_prefix_of_a_message_is_an_error_not_a_panic() {
    let whole = message::Disconnect {
        reason: 2,
        description: b"why",
        language: b"en",
    }
    .encode();
    for end in 0..whole.len() {
        assert!(message::Disconnect::decode(&whole[..end]).is_err());
    }
}

#[test]
fn the_table_is_sorted_so_that_lookup_by_number_works() {
    assert!(
        MESSAGES
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number)
    );
    assert_eq!(message::info(94).unwrap().name, "SSH_MSG_CHANNEL_DATA");
    assert!(message::info(42).is_none());
}
