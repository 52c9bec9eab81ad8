//! The connection's only PAM transaction, from authentication to the end of the session. The
//! monitor is the process whose ids and groups modules change, and the parent of the session
//! process.

use std::io;

use sys::pam::{Code, Conversation, CredentialAction, Pam, PamError, PamItem, PamPrompt};
use sys::process::WithGroups;
use zeroize::Zeroizing;

use super::accounts::Peer;

/// Limit on the kept messages of modules for the user, in bytes.
const MAX_MESSAGES_BYTES: usize = 64 * 1024;

/// The PAM variable that lists the user's proofs for modules.
const AUTH_INFO: &str = "SSH_AUTH_INFO_0";

/// Result of PAM's account check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccountState {
    /// The check was not made yet.
    Unasked,
    /// The account may log in.
    Fine,
    /// The account may log in after a change of its password.
    MustChangePassword,
    /// The account may not log in; the reason is for the log.
    Denied(String),
}

/// A PAM transaction and what it has to undo at its end.
#[derive(Debug)]
pub(crate) struct PamLogin {
    pam: Pam,
    user: String,
    messages: String,
    account: AccountState,
    /// PAM itself has authenticated the user.
    authenticated: bool,
    /// Credentials were established and must be deleted.
    credentials: bool,
    open: bool,
}

impl PamLogin {
    /// Starts the transaction.
    pub(crate) fn start(service: &str, user: &str, peer: &Peer) -> Result<Self, String> {
        sys::syslog::name_this_program();
        let mut pam = Pam::start(service, user).map_err(|error| error.to_string())?;
        for (item, value) in [
            (PamItem::RemoteHost, peer.host.as_str()),
            (PamItem::Tty, "ssh"),
        ] {
            pam.set_item(item, value)
                .map_err(|error| error.to_string())?;
        }
        pam.put_env("SSH_CONNECTION", &peer.connection)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            pam,
            user: user.to_owned(),
            messages: String::new(),
            account: AccountState::Unasked,
            authenticated: false,
            credentials: false,
            open: false,
        })
    }

    /// Sets the variable that lists the user's proofs so far for modules.
    ///
    /// # Errors
    /// If libpam rejects the variable.
    pub(crate) fn expose(&mut self, auth_info: &str) -> Result<(), String> {
        self.pam
            .put_env(AUTH_INFO, auth_info)
            .map_err(|error| error.to_string())
    }

    /// Sets a variable for modules and for the session.
    ///
    /// # Errors
    /// If libpam rejects the variable.
    pub(crate) fn put_env(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.pam
            .put_env(name, value)
            .map_err(|error| error.to_string())
    }

    /// Authenticates the user; `conversation` answers the prompts. An error is libpam's text alone.
    pub(crate) fn authenticate(
        &mut self,
        permit_empty: bool,
        conversation: &mut dyn Conversation,
    ) -> Result<(), String> {
        self.pam
            .authenticate(permit_empty, conversation)
            .map_err(|error| match error {
                PamError::Failed { text, .. } => text,
                error => error.to_string(),
            })?;
        self.check_user()?;
        self.authenticated = true;
        Ok(())
    }

    /// Fails if a module has changed the user's name to one that no check here has approved.
    fn check_user(&self) -> Result<(), String> {
        match self.pam.user() {
            Some(user) if user == self.user => Ok(()),
            _ => Err("a module changed the user's name".to_owned()),
        }
    }

    /// Checks whether the account may log in now. Modules are called once per connection.
    pub(crate) fn account(&mut self) -> AccountState {
        let mut listener = Listener::default();
        let state = self.check_account(&mut listener);
        self.keep_message(&listener.said);
        state
    }

    /// The same check in a dialogue with the user, in which an expired password is changed.
    ///
    /// # Errors
    /// The reason why the password was not changed.
    pub(crate) fn settle_account(
        &mut self,
        dialogue: &mut dyn Conversation,
    ) -> Result<AccountState, String> {
        let state = self.check_account(dialogue);
        if state == AccountState::MustChangePassword {
            self.pam
                .change_password(dialogue)
                .map_err(|error| error.to_string())?;
            self.account = AccountState::Fine;
        }
        Ok(self.account.clone())
    }

    fn check_account(&mut self, conversation: &mut dyn Conversation) -> AccountState {
        if self.account == AccountState::Unasked {
            let checked = self.pam.check_account(conversation);
            self.account = match checked {
                // Also a name that a failed attempt has changed: a key may follow it.
                Ok(()) => match self.check_user() {
                    Ok(()) => AccountState::Fine,
                    Err(reason) => AccountState::Denied(reason),
                },
                Err(error) if error.code() == Some(Code::NEW_AUTHTOK_REQD) => {
                    AccountState::MustChangePassword
                }
                Err(error) => AccountState::Denied(error.to_string()),
            };
        }
        self.account.clone()
    }

    /// Establishes credentials and opens the session, in this process. `groups` are the user's
    /// groups of the group database. Returns the supplementary groups after the changes of modules
    /// (pam_group).
    pub(crate) fn open_session(&mut self, groups: &[u32]) -> Result<Vec<u32>, String> {
        let mut listener = Listener::default();
        let established = self
            .check_user()
            .and_then(|()| self.establish(groups, &mut listener));
        let result = established.and_then(|groups| {
            self.pam
                .open_session(&mut listener)
                .map_err(|error| error.to_string())?;
            self.open = true;
            Ok(groups)
        });
        self.keep_message(&listener.said);
        result
    }

    /// Modules read the calling process's groups and add to them, as in a login program that is
    /// about to become the user.
    fn establish(&mut self, groups: &[u32], listener: &mut Listener) -> Result<Vec<u32>, String> {
        let failed = |error: io::Error| format!("groups of {}: {error}", self.user);
        let held = WithGroups::enter(groups).map_err(failed)?;
        // A PAM stack that permits no password may refuse credentials to a user whom a key let in.
        match self
            .pam
            .set_credentials(CredentialAction::Establish, listener)
        {
            Ok(()) => self.credentials = true,
            Err(error) if self.authenticated => return Err(error.to_string()),
            Err(_) => {}
        }
        held.now().map_err(failed)
    }

    /// Closes the session and deletes the credentials, if there are any. A second call does
    /// nothing.
    pub(crate) fn close(&mut self) {
        let mut listener = Listener::default();
        // A failure here has no remedy.
        if core::mem::take(&mut self.open) {
            let _ = self.pam.close_session(&mut listener);
        }
        if core::mem::take(&mut self.credentials) {
            let _ = self
                .pam
                .set_credentials(CredentialAction::Delete, &mut listener);
        }
    }

    /// Messages of modules for the user.
    pub(crate) fn messages(&self) -> &str {
        &self.messages
    }

    /// Appends to [`PamLogin::messages`] up to the limit.
    pub(crate) fn keep_message(&mut self, said: &str) {
        if self.messages.len() + said.len() <= MAX_MESSAGES_BYTES {
            self.messages.push_str(said);
        }
    }

    /// The environment set by modules, without `LD_` variables, which change how programs start,
    /// and without `SSH_AUTH_INFO_0`.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.pam
            .env_list()
            .into_iter()
            .filter(|(name, _)| !name.starts_with("LD_") && name != AUTH_INFO)
            .collect()
    }
}

/// Answers every hidden prompt with the password that the client sent.
pub(crate) struct SayPassword<'a> {
    password: &'a [u8],
}

impl<'a> SayPassword<'a> {
    pub(crate) fn new(password: &'a [u8]) -> Self {
        Self { password }
    }
}

impl Conversation for SayPassword<'_> {
    fn converse(&mut self, messages: &[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        messages
            .iter()
            .filter(|message| message.is_prompt())
            .map(|message| match message {
                PamPrompt::PromptHidden(_) => Some(Zeroizing::new(self.password.to_vec())),
                // An echoed prompt does not ask for a password.
                _ => None,
            })
            .collect()
    }
}

/// Keeps messages and fails on any prompt.
#[derive(Default)]
struct Listener {
    said: String,
}

impl Conversation for Listener {
    fn converse(&mut self, messages: &[PamPrompt]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        for message in messages {
            match message {
                PamPrompt::Error(text) | PamPrompt::Info(text) => {
                    self.said.push_str(text);
                    self.said.push('\n');
                }
                PamPrompt::PromptHidden(_) | PamPrompt::PromptEchoed(_) => return None,
            }
        }
        Some(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_answers_hidden_prompts_only() {
        let mut say = SayPassword::new(b"pw");
        let hidden = PamPrompt::PromptHidden("Password: ".into());
        let got = say
            .converse(&[PamPrompt::Info("hello".into()), hidden.clone(), hidden])
            .unwrap();
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].as_slice(), b"pw");
        assert!(
            say.converse(&[PamPrompt::PromptEchoed("Name: ".into())])
                .is_none()
        );
    }

    #[test]
    fn what_is_said_after_authentication_is_kept_and_questions_fail() {
        let mut listener = Listener::default();
        assert!(
            listener
                .converse(&[
                    PamPrompt::Info("motd".into()),
                    PamPrompt::Error("mail".into())
                ])
                .is_some()
        );
        assert_eq!(listener.said, "motd\nmail\n");
        assert!(
            listener
                .converse(&[PamPrompt::PromptHidden("?".into())])
                .is_none()
        );
    }
}
