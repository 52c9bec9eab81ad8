//! The process that reaches security keys: it reads one request, goes into its sandbox, performs the
//! request and ends.

use std::path::Path;

use crate::ctap::AttachedTokens;
use crate::library::SkLibrary;
use crate::message::{Attestation, HelperReply, HelperRequest, HelperWork, receive, send};
use crate::tokens::{NewTokenKey, TokenAccess, TokenSigning, Tokens};
use crate::{CONTROL_FD, FidoError, INTERNAL};

/// Main function of the role; gives the exit status. Exit handlers of a library do not run.
#[must_use]
pub fn main(_arguments: Vec<std::ffi::OsString>) -> i32 {
    let Ok(control) = sys::io::inherited(CONTROL_FD) else {
        eprintln!("{}: only other Fulmar processes start it", crate::ROLE);
        return 2;
    };
    let _ = sys::process::set_name("sk-helper");
    let reply = match receive(&control) {
        Ok(request) => HelperRequest::decode(&request)
            .and_then(|request| serve(&request))
            .unwrap_or_else(HelperReply::Failed),
        Err(_) => sys::process::exit_at_once(1),
    };
    let is_sent = send(&control, &reply.encode()).is_ok();
    sys::process::exit_at_once(i32::from(!is_sent))
}

fn serve(request: &HelperRequest<'_>) -> Result<HelperReply, FidoError> {
    let mut tokens: Box<dyn Tokens> = if request.provider == INTERNAL {
        confine(None)?;
        Box::new(AttachedTokens::find())
    } else {
        let path = Path::new(request.provider);
        SkLibrary::check(path)?;
        confine(Some(path))?;
        Box::new(SkLibrary::load(path)?)
    };
    let access = TokenAccess {
        pin: request.pin,
        device: request.device,
    };
    perform(tokens.as_mut(), &access, &request.work)
}

fn confine(library: Option<&Path>) -> Result<(), FidoError> {
    sys::sandbox::security_key(library)
        .map(drop)
        .map_err(|error| FidoError::Failed(format!("sandbox: {error}")))
}

fn perform(
    tokens: &mut dyn Tokens,
    access: &TokenAccess<'_>,
    work: &HelperWork<'_>,
) -> Result<HelperReply, FidoError> {
    Ok(match work {
        HelperWork::Sign {
            key_type,
            application,
            handle,
            flags,
            data,
        } => HelperReply::Signed(tokens.sign(
            access,
            &TokenSigning {
                key_type: *key_type,
                application,
                handle,
                flags: *flags,
                data,
            },
        )?),
        HelperWork::Enroll {
            key_type,
            application,
            user,
            challenge,
            flags,
        } => HelperReply::Keys(vec![tokens.enroll(
            access,
            &NewTokenKey {
                key_type: *key_type,
                application,
                user: *user,
                challenge,
                flags: *flags,
            },
        )?]),
        HelperWork::ListResident => {
            let mut keys = tokens.resident_keys(access)?;
            // Attestations are of no use here, and the reply is bounded.
            for key in &mut keys {
                key.attestation = Attestation::default();
            }
            HelperReply::Keys(keys)
        }
    })
}
