//! The choice among several tokens (OpenSSH: sk_select_by_touch in sk-usbhid.c): all of them wait for
//! a touch, and the one that is touched is used.

use std::time::{Duration, Instant};

use super::OpenedToken;
use crate::FidoError;

/// Time that the user has for the choice.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks at the tokens.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until one of the tokens is touched, and gives it; the only one without a touch.
///
/// # Errors
/// [`FidoError::DeviceNotFound`] without tokens, or in words that nobody has touched one in time.
pub(super) fn select(mut tokens: Vec<OpenedToken>) -> Result<OpenedToken, FidoError> {
    if tokens.len() > 1 {
        // One that cannot be asked is not chosen.
        tokens.retain(|token| token.ask_for_touch().is_ok());
    }
    if tokens.len() <= 1 {
        return tokens.pop().ok_or(FidoError::DeviceNotFound);
    }
    let deadline = Instant::now() + LIMIT;
    let touched = loop {
        let mut touched = None;
        let mut number = 0;
        tokens.retain_mut(|token| match token.is_touched() {
            Ok(is_touched) => {
                if is_touched && touched.is_none() {
                    touched = Some(number);
                }
                number += 1;
                true
            }
            // It has been removed, or does not know the request.
            Err(_) => false,
        });
        match touched {
            Some(number) => break number,
            None if tokens.is_empty() => return Err(FidoError::DeviceNotFound),
            None if Instant::now() >= deadline => {
                return Err(FidoError::failed(
                    "several security keys are attached, and nobody has touched one of them in time",
                ));
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    let chosen = tokens.swap_remove(touched);
    for token in &tokens {
        token.cancel();
    }
    Ok(chosen)
}
