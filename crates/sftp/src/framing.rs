//! What every message begins with.

use alloc::vec::Vec;

use wire::Put;

/// Writes a message: length field, message number, and the fields that `fields` appends.
pub(crate) fn framed(out: &mut Vec<u8>, number: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.put_u32(0);
    out.put_u8(number);
    fields(out);
    // The callers limit the data of one message far below 4 GiB.
    let len = u32::try_from(out.len() - at - 4).expect("own message under 4 GiB");
    if let Some(field) = out.get_mut(at..at + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
}

/// Writes a message with a request id: every message but INIT and VERSION.
pub(crate) fn framed_with_id(
    out: &mut Vec<u8>,
    number: u8,
    id: u32,
    fields: impl FnOnce(&mut Vec<u8>),
) {
    framed(out, number, |out| {
        out.put_u32(id);
        fields(out);
    });
}
