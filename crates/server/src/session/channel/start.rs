//! Starts a channel's command: from the request, through the rc file, to the program or
//! internal-sftp.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use driver::Driver;
use proto::Stream;
use sys::process::{Child, ExitStatus, SpawnError};

use super::{CommandStage, SessionChannel, reply};
use crate::session::command::{self, CommandPlan, InternalSftp, Launch, Wanted};
use crate::session::context::Context;
use crate::session::environment::{self, ChannelFacts, Environment, EnvironmentFiles};
use crate::session::sftp::SftpHandler;
use crate::session::stdio::{self, CommandEnd};
use crate::session::token::Token;
use crate::session::x11::X11Display;
use crate::session::{launch, text};

/// Exit status if /etc/nologin refuses the login, as in OpenSSH.
const NOLOGIN_STATUS: u8 = 254;
/// Text and exit status for a shell or command if `internal-sftp` is forced, as in OpenSSH.
const ONLY_SFTP: (&str, u8) = ("This service allows sftp connections only.\n", 1);

/// The step after the rc file.
pub(super) enum NextStart {
    /// A program.
    Command {
        launch: Launch,
        environment: Environment,
        end: CommandEnd,
    },
    /// The SFTP server in this process, already attached as the channel's endpoint.
    Files(InternalSftp),
    /// [`ONLY_SFTP`].
    OnlySftp,
}

impl SessionChannel {
    /// Handles `shell`, `exec` or `subsystem`. The reply is queued before any output.
    pub(super) fn start(
        &mut self,
        wanted: &Wanted,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let grant = &context.grant;
        let planned = match self.stage {
            CommandStage::Idle if grant.password_expired => Some(command::change_password()),
            CommandStage::Idle => {
                let forced = grant.forced_command.as_deref();
                command::plan(
                    wanted,
                    &grant.shell,
                    forced,
                    &context.options.session.subsystems,
                )
                .map_err(|refusal| {
                    context.log.info(&refusal.line(wanted, &grant.user));
                })
                .ok()
            }
            _ => None,
        };
        if planned.is_some() {
            let connection = driver.connection();
            connection.label_channel(self.id, &wanted.channel_label());
        }
        match planned {
            Some(CommandPlan::Run(launch)) => {
                self.start_command(wanted, launch, want_reply, driver, context)
            }
            Some(CommandPlan::InternalSftp(files)) => {
                self.serve_files(wanted, files, want_reply, driver, context)
            }
            Some(CommandPlan::OnlySftp { original_command }) => {
                self.refuse_all_but_sftp(wanted, original_command, want_reply, driver, context)
            }
            None => {
                reply(driver, self.id, want_reply, false);
                Ok(())
            }
        }
    }

    fn start_command(
        &mut self,
        wanted: &Wanted,
        launch: Launch,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let ends = match &mut self.terminal {
            Some(terminal) => terminal.ends(),
            None => {
                context.show_terminals();
                stdio::pipes()
            }
        };
        let (end, ours) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                context
                    .log
                    .error(&format!("cannot open the command's streams: {error}"));
                reply(driver, self.id, want_reply, false);
                return Ok(());
            }
        };
        self.log_start(wanted, context);
        reply(driver, self.id, want_reply, true);
        self.serial = context.serial();
        self.signals_refused = launch.is_forced || launch.is_subsystem;
        if let Some(words) = context.nologin() {
            self.fail(words, NOLOGIN_STATUS);
        } else if context.grant.password_expired && self.terminal.is_none() {
            self.fail(
                b"WARNING: Your password has expired.\n\
                  Password change required but no TTY available.\n"
                    .to_vec(),
                1,
            );
        } else {
            self.greet(&launch, context);
            driver.attach_sink(self.id, Stream::Data, ours.stdin)?;
            self.unattached = Some(ours.outputs);
            self.run(launch, end, driver, context)?;
        }
        self.advance(driver, context)
    }

    /// internal-sftp: this process serves the files, possibly in another thread.
    fn serve_files(
        &mut self,
        wanted: &Wanted,
        files: InternalSftp,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        if self.begin_inside(wanted, want_reply, driver, context) {
            let original = files.original_command.clone();
            // The endpoint keeps data that arrives while the rc file runs.
            driver.attach_endpoint(self.id, Box::new(SftpHandler::later()));
            self.run_rc(NextStart::Files(files), original, driver, context)?;
        }
        self.advance(driver, context)
    }

    /// Refuses a shell or command because internal-sftp is forced.
    fn refuse_all_but_sftp(
        &mut self,
        wanted: &Wanted,
        original_command: Option<Vec<u8>>,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        if self.begin_inside(wanted, want_reply, driver, context) {
            let grant = &context.grant;
            context.log.error(&format!(
                "Connection from user {} {} port {}: refusing non-sftp session",
                grant.user, grant.remote_address, grant.remote_port
            ));
            self.run_rc(NextStart::OnlySftp, original_command, driver, context)?;
        }
        self.advance(driver, context)
    }

    /// Answers a request that this process serves without a program; returns false if /etc/nologin
    /// refuses the login.
    fn begin_inside(
        &mut self,
        wanted: &Wanted,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> bool {
        self.log_start(wanted, context);
        context.show_terminals();
        reply(driver, self.id, want_reply, true);
        self.serial = context.serial();
        self.signals_refused = true;
        match context.nologin() {
            Some(words) => {
                self.fail(words, NOLOGIN_STATUS);
                false
            }
            None => true,
        }
    }

    /// Runs the system's rc file before a step of this process itself. The output is discarded,
    /// because it would corrupt the SFTP stream.
    fn run_rc(
        &mut self,
        next: NextStart,
        original_command: Option<Vec<u8>>,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let grant = &context.grant;
        let Some(file) = launch::rc_file(grant, &context.options.session, true) else {
            return self.run_next(next, driver, context);
        };
        let files = context.environment_files();
        let environment = self.environment(original_command.as_deref(), &files, context);
        // Under SftpRoot, Landlock denies /dev/null and the shell to every channel after the first:
        // the rc file then fails, and the channel continues.
        let started = CommandEnd::of_nobody()
            .map_err(|error| SpawnError {
                step: sys::process::SpawnStep::Descriptors,
                error,
            })
            .and_then(|end| launch::rc(file, &grant.shell, &environment, &grant.home, &end, b""));
        self.after_rc(Some(started), next, driver, context)
    }

    /// Waits for the rc file, if one was started, and continues with `next`.
    fn after_rc(
        &mut self,
        started: Option<Result<Child, SpawnError>>,
        next: NextStart,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        match started {
            Some(Ok(rc)) => {
                self.watch(&rc, driver)?;
                self.stage = CommandStage::Preparing { rc, next };
                return Ok(());
            }
            Some(Err(error)) => context.log.error(&format!("rc file: {error}")),
            None => {}
        }
        self.run_next(next, driver, context)
    }

    /// Starts the step after the rc file.
    pub(super) fn run_next(
        &mut self,
        next: NextStart,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        match next {
            NextStart::Command {
                launch,
                environment,
                end,
            } => self.run_command(&launch, &environment, end, driver, context),
            NextStart::Files(files) => self.run_files(&files, driver, context),
            NextStart::OnlySftp => {
                let (words, status) = ONLY_SFTP;
                self.fail(words.as_bytes().to_vec(), status);
                // OpenSSH writes this to standard output.
                self.words_to = Stream::Data;
                Ok(())
            }
        }
    }

    fn run_files(
        &mut self,
        files: &InternalSftp,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let Some(endpoint) = driver.endpoint::<SftpHandler>(self.id) else {
            // The channel is closing.
            return Ok(());
        };
        match endpoint.begin(files, context) {
            Ok(()) => {
                let files = endpoint.thread().map(Arc::clone);
                if let Some(files) = &files {
                    let waker = files.waker().as_fd();
                    driver.watch(waker, Token::Files(self.serial).number(), true, false)?;
                }
                self.stage = CommandStage::Serving { files };
            }
            Err(words) => {
                drop(driver.detach_endpoint(self.id));
                context.log.error(&words);
                self.fail(format!("{words}\n").into_bytes(), 1);
            }
        }
        Ok(())
    }

    /// Logs the start of a session, with a forced command but without the user's own command.
    fn log_start(&self, wanted: &Wanted, context: &Context<'_>) {
        let configured = context.options.session.force_command.as_deref();
        let kind = match (configured, context.grant.forced_command.as_deref(), wanted) {
            _ if context.grant.password_expired => "shell".to_owned(),
            (Some(forced), ..) => format!("forced-command (config) '{forced}'"),
            (None, Some(forced), _) => format!("forced-command (key-option) '{forced}'"),
            (.., Wanted::Shell) => "shell".to_owned(),
            (.., Wanted::Exec(_)) => "command".to_owned(),
            (.., Wanted::Subsystem(name)) => {
                format!("subsystem '{}'", String::from_utf8_lossy(name))
            }
        };
        let tty = self.terminal.as_ref().map_or(String::new(), |terminal| {
            let path = terminal.path();
            format!(" on {}", path.strip_prefix("/dev/").unwrap_or(path))
        });
        let whose = context.whose();
        let id = self.id.0;
        context.log.verbose(&format!(
            "Starting session: {kind}{tty} for {whose} id {id}"
        ));
    }

    fn greet(&mut self, launch: &Launch, context: &Context<'_>) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        if context.grant.password_expired {
            self.unsent = b"WARNING: Your password has expired.\r\n\
                You must change your password now and login again!\r\n"
                .to_vec();
        } else if launch.is_login_shell {
            self.unsent = text::greeting(
                &context.grant,
                &context.options.session,
                terminal.last_login(),
            );
        }
    }

    fn environment(
        &self,
        original_command: Option<&[u8]>,
        files: &EnvironmentFiles,
        context: &Context<'_>,
    ) -> Environment {
        let facts = ChannelFacts {
            client: &self.client_environment,
            tty: self
                .terminal
                .as_ref()
                .map(|terminal| (terminal.term(), terminal.path())),
            original_command,
            agent_socket: context.agent_socket.get().map(Vec::as_slice),
            auth_info_path: context.auth_info.as_ref().and_then(|file| file.path()),
            display: self.x11.as_ref().map(|x11| x11.display.as_str()),
            tunnels: context.tunnels.borrow().join(","),
        };
        environment::build(&context.grant, &context.options, files, &facts)
    }

    /// Starts the rc file if there is one, else the command.
    fn run(
        &mut self,
        launch: Launch,
        end: CommandEnd,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let grant = &context.grant;
        let files = context.environment_files();
        let environment = self.environment(launch.original_command.as_deref(), &files, context);
        let started = if grant.password_expired {
            None
        } else {
            warn_of_environment(&files, &end, context);
            warn_of_home(&end, context);
            let x11 = self.x11.as_ref();
            match launch::rc_file(grant, &context.options.session, launch.is_subsystem) {
                Some(file) => {
                    let input = x11.map(X11Display::rc_input).unwrap_or_default();
                    let (shell, home) = (&grant.shell, &grant.home);
                    Some(launch::rc(file, shell, &environment, home, &end, &input))
                }
                None => x11.and_then(|x11| store_cookie(x11, &environment, &end, context)),
            }
        };
        let next = NextStart::Command {
            launch,
            environment,
            end,
        };
        self.after_rc(started, next, driver, context)
    }

    fn run_command(
        &mut self,
        launch: &Launch,
        environment: &Environment,
        end: CommandEnd,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        match launch::command(
            launch,
            environment,
            &context.grant.home,
            end,
            context.umask.get(),
        ) {
            Ok(child) => {
                self.watch(&child, driver)?;
                self.stage = CommandStage::Running { child };
            }
            Err(error) => {
                context
                    .log
                    .error(&format!("{}: {error}", launch.program.display()));
                let why = error.error.to_string();
                let why = escape::system_words(&why);
                let words = format!("{}: {why}\n", launch.program.display());
                self.fail(words.into_bytes(), 1);
            }
        }
        Ok(())
    }

    /// Watches for the end of a child.
    fn watch(&self, child: &Child, driver: &mut Driver) -> io::Result<()> {
        driver.watch(
            child.pidfd().as_fd(),
            Token::Child(self.serial).number(),
            true,
            false,
        )
    }

    /// Ends the channel with a text and an exit status instead of a command.
    fn fail(&mut self, words: Vec<u8>, status: u8) {
        let words = if self.terminal.is_some() {
            text::with_carriage_returns(&words)
        } else {
            words
        };
        self.unsent.extend(words);
        self.words_to = if self.terminal.is_some() {
            Stream::Data
        } else {
            Stream::Stderr
        };
        self.unattached = None;
        self.stage = CommandStage::Ended {
            status: ExitStatus::Exited(status),
            told: false,
        };
    }
}

/// Stores a display's cookie by xauth, which runs before the command, or without it if the host has
/// none.
fn store_cookie(
    x11: &X11Display,
    environment: &Environment,
    end: &CommandEnd,
    context: &Context<'_>,
) -> Option<Result<Child, SpawnError>> {
    let (program, home) = (
        &context.options.forwarding.xauth_location,
        &context.grant.home,
    );
    if std::fs::exists(program).unwrap_or_default() {
        let input = x11.xauth_input();
        return Some(launch::xauth(program, environment, home, end, &input));
    }
    let file = environment.get(b"XAUTHORITY").map_or_else(
        || Path::new(home).join(".Xauthority"),
        |path| OsStr::from_bytes(path).into(),
    );
    if let Err(error) = x11.store(&file) {
        context.log.error(&format!(
            "{}: {error}; X11 programs get no cookie",
            file.display()
        ));
    }
    None
}

/// Warns the user on the command's standard error of the lines of ~/.ssh/environment that set nothing.
fn warn_of_environment(files: &EnvironmentFiles, end: &CommandEnd, context: &Context<'_>) {
    let Some(file) = &files.user else {
        return;
    };
    let path = format!("{}/.ssh/environment", context.grant.home);
    let words = environment::complaints(file, &path);
    // The pipe or terminal is empty, so the write does not block.
    let _ = sys::io::write_all(&end.stderr, words.as_bytes());
}

/// Warns the user on the command's standard error that the home directory cannot be entered. Not in
/// a chroot, where homes rarely exist; OpenSSH does not warn there either.
fn warn_of_home(end: &CommandEnd, context: &Context<'_>) {
    if context.grant.chroot.is_some() {
        return;
    }
    let home = &context.grant.home;
    if let Some(why) = launch::unusable_home(home) {
        let words = format!("Could not chdir to home directory {home}: {why}\n");
        // The pipe or terminal is empty, so the write does not block.
        let _ = sys::io::write_all(&end.stderr, words.as_bytes());
    }
}
