//! What the process that has loaded a PKCS #11 library sends, to a program that does not trust it.

use keys::PrivateKey;
use token::message::{PinState, PinUse, TokenEntry, TokenKey, TokenList, TokenReply, whole_frame};

/// Any bytes, as frames with replies. One that is read is written, and read again, as the same.
///
/// # Panics
/// Only for a defect.
pub fn token_reply(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(body)) = whole_frame(rest) {
        if let Ok((number, reply)) = TokenReply::decode(body) {
            let written = reply.encode(number);
            let again = whole_frame(&written)
                .expect("own frame")
                .expect("all of it");
            assert_eq!(TokenReply::decode(again), Ok((number, reply)));
        }
        rest = rest.get(4 + body.len()..).expect("the frame is there");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let list = TokenList {
        tokens: vec![TokenEntry {
            label: "token".to_owned(),
            needs_pin: true,
            has_keypad: false,
            pin_state: PinState::Low,
        }],
        keys: vec![TokenKey {
            public: PrivateKey::from_ed25519_seed(&[1; 32]).public().clone(),
            label: "key".to_owned(),
            token: 0,
        }],
    };
    let replies = [
        TokenReply::Opened(list),
        TokenReply::LoggedIn,
        TokenReply::Signature(b"signature".to_vec()),
        TokenReply::NeedsPin {
            token: 0,
            pin_use: PinUse::OneSignature,
        },
        TokenReply::Failed {
            reason: "no".to_owned(),
            is_pin_wrong: true,
        },
    ];
    let frames: Vec<Vec<u8>> = replies
        .iter()
        .map(|reply| reply.encode(7).to_vec())
        .collect();
    let all = frames.concat();
    frames.into_iter().chain([all]).collect()
}
