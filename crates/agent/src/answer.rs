//! The answers of an agent, with their length field, as they are sent.

use wire::Put;

use crate::message::QUERY;
use crate::message::{
    EXTENSION_FAILURE, EXTENSION_RESPONSE, FAILURE, IDENTITIES_ANSWER, SIGN_RESPONSE, SUCCESS,
};

/// SSH_AGENT_SUCCESS or SSH_AGENT_FAILURE.
#[must_use]
pub fn status(is_success: bool) -> Vec<u8> {
    let number = if is_success { SUCCESS } else { FAILURE };
    vec![0, 0, 0, 1, number]
}

/// SSH_AGENT_EXTENSION_FAILURE: the extension is known and failed.
#[must_use]
pub fn extension_failure() -> Vec<u8> {
    vec![0, 0, 0, 1, EXTENSION_FAILURE]
}

/// SSH_AGENT_SIGN_RESPONSE with a signature blob.
#[must_use]
pub fn signature(blob: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(blob.len() + 9);
    out.put_u32(u32::try_from(blob.len() + 5).unwrap_or(u32::MAX));
    out.put_u8(SIGN_RESPONSE);
    out.put_string(blob);
    out
}

/// SSH_AGENT_IDENTITIES_ANSWER with pairs of blob and comment.
#[must_use]
pub fn identities<'a>(list: impl ExactSizeIterator<Item = (&'a [u8], &'a str)>) -> Vec<u8> {
    let mut body = vec![IDENTITIES_ANSWER];
    body.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    for (blob, comment) in list {
        body.put_string(blob);
        body.put_string(comment.as_bytes());
    }
    framed(&body)
}

/// SSH_AGENT_EXTENSION_RESPONSE to `query` with the names of extensions.
#[must_use]
pub fn extensions(names: &[&str]) -> Vec<u8> {
    let mut body = vec![EXTENSION_RESPONSE];
    body.put_string(QUERY.as_bytes());
    for name in names {
        body.put_string(name.as_bytes());
    }
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 4);
    out.put_string(body);
    out
}
