//! AuthorizedKeysCommand and AuthorizedPrincipalsCommand: programs that print the lines of such
//! files. They run with the ids and groups of their own user only, with limits on time and output.
//! What they print on standard error goes to the log at VERBOSE, and never to sshd's own standard
//! error, where it could look like lines of sshd.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use config::server::USER_PATH;
use config::tokens::{Purpose, Tokens};
use keys::authorized_keys::KeyOptions;
use privsep::LogLevel;
use sys::file::FollowLinks;
use sys::process::{Child, ChildCommand, Limit, PrintedText, Resource};
use sys::signals::Signal;

use keys::candidate::CandidateKey;

use super::{Lookup, hash_of};

/// Limit on a program's output, in bytes: that of a file with such lines.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// The variable for the language of messages, which the listener passes on.
const LANGUAGE: &str = "LANG";
/// Time limit of a program: half of LoginGraceTime's default.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A program that the configuration names, and the user it runs as.
pub(super) struct ConfiguredCommand<'o> {
    keyword: &'static str,
    template: &'o str,
    user: &'o str,
    /// The tokens permitted in its arguments.
    tokens: &'static str,
    /// Its only argument if the configuration gives none.
    alone: Option<&'static str>,
}

impl<'o> ConfiguredCommand<'o> {
    /// AuthorizedKeysCommand.
    pub(super) fn of_keys(template: &'o str, user: &'o str) -> Self {
        Self {
            keyword: "AuthorizedKeysCommand",
            template,
            user,
            tokens: "CDfhktUu",
            alone: Some("%u"),
        }
    }

    /// AuthorizedPrincipalsCommand.
    pub(super) fn of_principals(template: &'o str, user: &'o str) -> Self {
        Self {
            keyword: "AuthorizedPrincipalsCommand",
            template,
            user,
            tokens: "CDFfhiKksTtUu",
            alone: None,
        }
    }
}

impl Lookup<'_> {
    /// Searches the output of AuthorizedKeysCommand for the key.
    pub(super) fn in_keys_command(&self, candidate: &CandidateKey) -> Option<KeyOptions> {
        let template = self.options.user_keys.authorized_keys_command.as_deref()?;
        let user = self
            .options
            .user_keys
            .authorized_keys_command_user
            .as_deref()?;
        let output = self.output_of(&ConfiguredCommand::of_keys(template, user), candidate)?;
        self.search(&output, "AuthorizedKeysCommand", candidate)
    }

    /// Returns the output of AuthorizedPrincipalsCommand.
    pub(super) fn principals_of_command(&self, candidate: &CandidateKey) -> Option<Vec<u8>> {
        let template = self
            .options
            .user_keys
            .authorized_principals_command
            .as_deref()?;
        let user = self
            .options
            .user_keys
            .authorized_principals_command_user
            .as_deref()?;
        self.output_of(&ConfiguredCommand::of_principals(template, user), candidate)
    }

    /// Runs the program and returns its output; `None` for users who may not log in, because no
    /// command is run for a name without an account.
    fn output_of(
        &self,
        program: &ConfiguredCommand<'_>,
        candidate: &CandidateKey,
    ) -> Option<Vec<u8>> {
        if !self.valid {
            return None;
        }
        self.run(program, candidate, TIME_LIMIT)
            .map_err(|error| {
                self.log.error(&format!(
                    "{} {}: {error}",
                    program.keyword, program.template
                ));
            })
            .ok()
    }

    pub(super) fn run(
        &self,
        asked: &ConfiguredCommand<'_>,
        candidate: &CandidateKey,
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        let arguments = self.arguments(asked, candidate)?;
        let program = arguments.first().map(String::as_str).unwrap_or_default();
        check_program(Path::new(program))?;
        let runs_as = self.command_user(asked.user)?;

        let (reader, writer) = sys::io::pipe()?;
        let (mut printed, errors) = PrintedText::kept(asked.keyword)?;
        let errors = match self.log.can_write(LogLevel::Verbose) {
            true => errors,
            false => sys::io::null()?,
        };
        let mut command = ChildCommand::new(program);
        command
            .args(&arguments)
            .env("PATH", USER_PATH)
            .env("USER", &runs_as.name)
            .env("LOGNAME", &runs_as.name)
            .env("HOME", &runs_as.home)
            .inherit_env_of(&[LANGUAGE])
            .fd(sys::io::null()?, 0)
            .fd(writer, 1)
            .fd(errors, 2)
            .new_session()
            .limit(Resource::Core, Limit::both(0))
            .current_dir("/")
            .credentials(runs_as.credentials()?);
        let mut child = command.spawn().map_err(io::Error::other)?;
        // The command holds this process's copies of the pipes' write ends.
        drop(command);
        let deadline = Instant::now() + limit;
        let output = read_bounded(&reader, &mut printed, deadline);
        drop(reader);
        // A program that closes its output but does not end in time counts as failed.
        let ended = output.is_ok() && has_ended(&mut child, &mut printed, deadline);
        if !ended {
            let _ = child.signal_group(Signal::KILL);
        }
        let status = child.wait()?;
        for line in printed.lines() {
            self.log.verbose(&line);
        }
        let output = output?;
        if !ended {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if !status.is_success() {
            return Err(io::Error::other(format!("failed: {status}")));
        }
        Ok(output)
    }

    /// Splits the command into words and expands tokens in all but the program's path.
    fn arguments(
        &self,
        asked: &ConfiguredCommand<'_>,
        candidate: &CandidateKey,
    ) -> io::Result<Vec<String>> {
        let mut words = config::lexer::split_words(asked.template, false)
            .map_err(|error| io::Error::other(error.to_string()))?;
        if words.len() == 1 {
            words.extend(asked.alone.map(str::to_owned));
        }
        let tokens = self.command_tokens(candidate).only(asked.tokens);
        for word in words.iter_mut().skip(1) {
            *word = tokens
                .expand(word, Purpose::Plain)
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(words)
    }

    fn command_user(&self, template: &str) -> io::Result<sys::users::User> {
        let name = Tokens::new()
            .with('u', &self.account.name)
            .expand(template, Purpose::Plain)
            .map_err(|error| io::Error::other(error.to_string()))?;
        sys::users::by_name(&name)?.ok_or_else(|| io::Error::other(format!("no such user {name}")))
    }

    fn command_tokens(&self, candidate: &CandidateKey) -> Tokens {
        let key = candidate.key();
        // The fingerprint of a certificate is that of its key.
        let fingerprint_of = |key: &keys::PublicKey| {
            keys::fingerprint::of_blob(&key.blob(), hash_of(&self.options.logging))
        };
        let mut tokens = Tokens::new()
            .with('u', &self.account.name)
            .with('U', self.account.uid.to_string())
            .with('h', &self.account.home)
            .with('t', key.blob_name())
            .with('f', fingerprint_of(key.key()))
            .with('k', keys::base64::encode(&key.blob()))
            .with('C', server_first(&self.peer.connection))
            .with('D', &self.peer.rdomain);
        if let Some(certificate) = key.certificate() {
            let authority = certificate.authority();
            tokens = tokens
                .with('F', fingerprint_of(authority))
                .with('T', authority.key_type().name())
                .with('K', keys::base64::encode(&authority.blob()))
                .with('i', String::from_utf8_lossy(certificate.key_id()))
                .with('s', certificate.serial().to_string());
        }
        tokens
    }
}

/// The ends of a connection as OpenSSH's code orders them for `%C`: the server's address and port first.
/// Its manual page says that the client's come first, as in SSH_CONNECTION.
fn server_first(connection: &str) -> String {
    let words: Vec<&str> = connection.split(' ').collect();
    match words[..] {
        [client, client_port, server, port] => format!("{server} {port} {client} {client_port}"),
        _ => connection.to_owned(),
    }
}

/// Checks that `path` is absolute and that only root or this process's user could have written the
/// file.
fn check_program(path: &Path) -> io::Result<()> {
    if !path.is_absolute() {
        return Err(io::Error::other("path must be absolute"));
    }
    let file = sys::file::open_regular(path, FollowLinks::Follow)?;
    let owner = sys::process::effective_uid();
    sys::file::secure_path(&file, path, Path::new("/"), owner).map_err(io::Error::other)
}

/// Waits until the program ends, at most until `deadline`; returns true if it has ended.
fn has_ended(child: &mut Child, printed: &mut PrintedText, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    match printed.show_until_readable(child.pidfd(), Some(left)) {
        Ok(()) => true,
        Err(_) => child.try_wait().is_ok_and(|status| status.is_some()),
    }
}

fn read_bounded(
    reader: &OwnedFd,
    printed: &mut PrintedText,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    let mut chunk = [0_u8; 8192];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        printed.show_until_readable(reader, Some(left))?;
        let count = sys::io::read(reader, &mut chunk)?;
        if count == 0 {
            return Ok(output);
        }
        output.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if output.len() > MAX_OUTPUT_BYTES {
            return Err(io::Error::other("more than 16 MiB of output"));
        }
    }
}
