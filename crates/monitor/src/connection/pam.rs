//! The connection's one PAM transaction, from authentication to the end of the session: this
//! process is the caller that modules act on and the parent of the session process.

use std::io;

use sys::pam::{Code, Conversation, CredentialAction, Item, Message, Pam, PamError};
use sys::process::WithGroups;
use zeroize::Zeroizing;

use super::accounts::Peer;

/// Most that is kept of what modules say for the user, in bytes.
const MAX_MESSAGES_BYTES: usize = 64 * 1024;

/// The variable in which modules find what the user has proved.
const AUTH_INFO: &str = "SSH_AUTH_INFO_0";

/// What PAM says of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccountState {
    /// It was not asked yet.
    Unasked,
    /// It may log in.
    Fine,
    /// After a change of its password.
    MustChangePassword,
    /// It may not; the reason is for the log.
    Denied(String),
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct PamLogin {
    pam: Pam,
    user: String,
    messages: String,
    account: AccountState,
    /// Modules have let the user in themselves.
    authenticated: bool,
    /// What is to be undone at the end.
    credentials: bool,
    open: bool,
}

impl PamLogin {
    /// Starts the transaction.
    pub(crate) fn start(service: &str, user: &str, peer: &Peer) -> Result<Self, String> {
        sys::syslog::name_this_program();
        let mut pam = Pam::start(service, user).map_err(|error| error.to_string())?;
        for (item, value) in [(Item::RemoteHost, peer.host.as_str()), (Item::Tty, "ssh")] {
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

    /// Tells modules by what the user has been let in so far.
    ///
    /// # Errors
    /// When libpam does not take it.
    pub(crate) fn expose(&mut self, auth_info: &str) -> Result<(), String> {
        self.pam
            .put_env(AUTH_INFO, auth_info)
            .map_err(|error| error.to_string())
    }

    /// Authenticates; `conversation` answers. What failed is said in libpam's words alone.
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
        // A module may have taken the login to another name, which nobody has judged.
        match self.pam.user() {
            Some(user) if user == self.user => {
                self.authenticated = true;
                Ok(())
            }
            _ => Err("a module changed the user's name".to_owned()),
        }
    }

    /// Whether the account may log in now. Modules are asked once for each connection.
    pub(crate) fn account(&mut self) -> AccountState {
        let mut listener = Listener::default();
        let state = self.check_account(&mut listener);
        self.keep_message(&listener.said);
        state
    }

    /// The same in a dialogue with the user, who changes an expired password there and then.
    ///
    /// # Errors
    /// Why the password was not changed.
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
            self.account = match self.pam.check_account(conversation) {
                Ok(()) => AccountState::Fine,
                Err(error) if error.code() == Some(Code::NEW_AUTHTOK_REQD) => {
                    AccountState::MustChangePassword
                }
                Err(error) => AccountState::Denied(error.to_string()),
            };
        }
        self.account.clone()
    }

    /// Establishes credentials and opens the session, in this process. Returns the user's
    /// supplementary groups: those of the group database, which are given, and what modules
    /// (pam_group) made of them.
    pub(crate) fn open_session(&mut self, groups: &[u32]) -> Result<Vec<u32>, String> {
        let mut listener = Listener::default();
        let result = self.establish(groups, &mut listener).and_then(|groups| {
            self.pam
                .open_session(&mut listener)
                .map_err(|error| error.to_string())?;
            self.open = true;
            Ok(groups)
        });
        self.keep_message(&listener.said);
        result
    }

    /// Modules find the user's groups on their caller and add theirs there, as they would to a
    /// login program that is about to become the user.
    fn establish(&mut self, groups: &[u32], listener: &mut Listener) -> Result<Vec<u32>, String> {
        let failed = |error: io::Error| format!("groups of {}: {error}", self.user);
        let held = WithGroups::enter(groups).map_err(failed)?;
        // A stack that lets nobody in by a password may refuse this to whom a key let in.
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

    /// Closes the session and deletes the credentials, as far as there are any. Twice is once.
    pub(crate) fn close(&mut self) {
        let mut listener = Listener::default();
        // Nothing can be done about a failure at the end.
        if core::mem::take(&mut self.open) {
            let _ = self.pam.close_session(&mut listener);
        }
        if core::mem::take(&mut self.credentials) {
            let _ = self
                .pam
                .set_credentials(CredentialAction::Delete, &mut listener);
        }
    }

    /// What modules said for the user to read.
    pub(crate) fn messages(&self) -> &str {
        &self.messages
    }

    /// Adds to it.
    pub(crate) fn keep_message(&mut self, said: &str) {
        if self.messages.len() + said.len() <= MAX_MESSAGES_BYTES {
            self.messages.push_str(said);
        }
    }

    /// The environment that modules made, without what could change how programs start.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.pam
            .env_list()
            .into_iter()
            .filter(|(name, _)| !name.starts_with("LD_") && name != AUTH_INFO)
            .collect()
    }
}

/// Answers every hidden prompt with the one password that the client sent.
pub(crate) struct SayPassword<'a> {
    password: &'a [u8],
}

impl<'a> SayPassword<'a> {
    pub(crate) fn new(password: &'a [u8]) -> Self {
        Self { password }
    }
}

impl Conversation for SayPassword<'_> {
    fn converse(&mut self, messages: &[Message]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        messages
            .iter()
            .filter(|message| message.is_prompt())
            .map(|message| match message {
                Message::PromptHidden(_) => Some(Zeroizing::new(self.password.to_vec())),
                // A question that a password does not answer.
                _ => None,
            })
            .collect()
    }
}

/// Keeps what is said and answers nothing.
#[derive(Default)]
struct Listener {
    said: String,
}

impl Conversation for Listener {
    fn converse(&mut self, messages: &[Message]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        for message in messages {
            match message {
                Message::Error(text) | Message::Info(text) => {
                    self.said.push_str(text);
                    self.said.push('\n');
                }
                Message::PromptHidden(_) | Message::PromptEchoed(_) => return None,
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
        let hidden = Message::PromptHidden("Password: ".into());
        let got = say
            .converse(&[Message::Info("hello".into()), hidden.clone(), hidden])
            .unwrap();
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].as_slice(), b"pw");
        assert!(
            say.converse(&[Message::PromptEchoed("Name: ".into())])
                .is_none()
        );
    }

    #[test]
    fn what_is_said_after_authentication_is_kept_and_questions_fail() {
        let mut listener = Listener::default();
        assert!(
            listener
                .converse(&[Message::Info("motd".into()), Message::Error("mail".into())])
                .is_some()
        );
        assert_eq!(listener.said, "motd\nmail\n");
        assert!(
            listener
                .converse(&[Message::PromptHidden("?".into())])
                .is_none()
        );
    }
}
