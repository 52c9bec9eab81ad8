//! The start of a channel's command: from the request through ~/.ssh/rc to the program.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use driver::Driver;
use proto::Stream;
use sys::process::{Child, ExitStatus};

use super::{SessionChannel, Stage, reply};
use crate::session::command::{self, Launch, Plan, Wanted};
use crate::session::context::Context;
use crate::session::environment::{self, ChannelFacts, Environment};
use crate::session::sftp::SftpEndpoint;
use crate::session::stdio::{self, CommandEnd};
use crate::session::token::Token;
use crate::session::{launch, text};

/// Exit status when the machine takes no logins, as OpenSSH has it.
const NOLOGIN_STATUS: u8 = 254;

impl SessionChannel {
    /// Carries out `shell`, `exec` or `subsystem`, and answers it before anything else is sent.
    pub(super) fn start(
        &mut self,
        wanted: &Wanted,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let grant = &context.grant;
        let planned = match self.stage {
            Stage::Idle if grant.password_expired => Some(command::change_password()),
            Stage::Idle => {
                let forced = grant.forced_command.as_deref();
                command::plan(wanted, &grant.shell, forced, &context.options.subsystems)
                    .map_err(|refusal| {
                        context
                            .log
                            .info(&format!("request refused: {}", refusal.text()))
                    })
                    .ok()
            }
            _ => None,
        };
        let launch = match planned {
            Some(Plan::Run(launch)) => launch,
            Some(Plan::InternalSftp {
                arguments,
                is_forced,
            }) => return self.serve_files(&arguments, is_forced, want_reply, driver, context),
            None => {
                reply(driver, self.id, want_reply, false);
                return Ok(());
            }
        };
        let ends = match &mut self.terminal {
            Some(terminal) => terminal.ends(),
            None => stdio::pipes(),
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
        self.log_start(wanted, &launch, context);
        context.set_quality(self.terminal.is_some());
        reply(driver, self.id, want_reply, true);
        self.serial = context.serial();
        self.signals_refused = launch.is_forced || launch.is_subsystem;
        if let Some(words) = context.nologin() {
            self.fail(words, NOLOGIN_STATUS);
        } else if grant.password_expired && self.terminal.is_none() {
            self.fail(
                b"Password change required but no TTY available.\n".to_vec(),
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

    /// internal-sftp: this process is the server, perhaps in another thread.
    fn serve_files(
        &mut self,
        arguments: &[String],
        is_forced: bool,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let grant = &context.grant;
        context.log.verbose(&format!(
            "Starting session: {} 'sftp' for {} from {} port {} id {}",
            if is_forced {
                "forced-command (config) 'internal-sftp'"
            } else {
                "subsystem"
            },
            grant.user,
            grant.remote_address,
            grant.remote_port,
            self.id.0
        ));
        context.set_quality(false);
        reply(driver, self.id, want_reply, true);
        self.serial = context.serial();
        self.signals_refused = true;
        if let Some(words) = context.nologin() {
            self.fail(words, NOLOGIN_STATUS);
            return self.advance(driver, context);
        }
        match SftpEndpoint::start(arguments, is_forced, context) {
            Ok(endpoint) => {
                let desk = endpoint.desk().map(Arc::clone);
                if let Some(desk) = &desk {
                    let bell = desk.bell().as_fd();
                    driver.watch(bell, Token::Files(self.serial).number(), true, false)?;
                }
                driver.attach_endpoint(self.id, Box::new(endpoint));
                self.stage = Stage::Serving { desk };
            }
            Err(words) => {
                context.log.error(&words);
                self.fail(format!("{words}\n").into_bytes(), 1);
            }
        }
        self.advance(driver, context)
    }

    fn log_start(&self, wanted: &Wanted, launch: &Launch, context: &Context<'_>) {
        let grant = &context.grant;
        let kind = match wanted {
            _ if launch.is_forced => "forced-command",
            Wanted::Shell => "shell",
            Wanted::Exec(_) => "command",
            Wanted::Subsystem(_) => "subsystem",
        };
        let tty = self
            .terminal
            .as_ref()
            .map_or(String::new(), |terminal| format!(" on {}", terminal.path()));
        context.log.verbose(&format!(
            "Starting session: {kind}{tty} for {} from {} port {} id {}",
            grant.user, grant.remote_address, grant.remote_port, self.id.0
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
            self.unsent = text::greeting(&context.grant, &context.options, terminal.last_login());
        }
    }

    /// Starts the command, or what runs before it.
    fn run(
        &mut self,
        launch: Launch,
        end: CommandEnd,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let facts = ChannelFacts {
            client: &self.client_environment,
            tty: self
                .terminal
                .as_ref()
                .map(|terminal| (terminal.term(), terminal.path())),
            original_command: launch.original_command.as_deref(),
            auth_info_path: context.auth_info.as_ref().and_then(|file| file.path()),
        };
        let grant = &context.grant;
        let environment = environment::build(
            grant,
            &context.options,
            &context.environment_files(),
            &facts,
        );
        let user_rc = context.options.permit_user_rc && !grant.restrictions.no_user_rc;
        let before = if launch.is_subsystem || grant.password_expired {
            None
        } else {
            launch::rc_file(&grant.home, user_rc)
        };
        let started =
            before.map(|file| launch::rc(file, &grant.shell, &environment, &grant.home, &end));
        match started {
            Some(Ok(rc)) => {
                self.watch(&rc, driver)?;
                self.stage = Stage::Preparing {
                    rc,
                    launch,
                    environment,
                    end,
                };
            }
            Some(Err(error)) => {
                context.log.error(&format!("rc file: {error}"));
                self.run_command(&launch, &environment, end, driver, context)?;
            }
            None => self.run_command(&launch, &environment, end, driver, context)?,
        }
        Ok(())
    }

    pub(super) fn run_command(
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
                self.stage = Stage::Running { child };
            }
            Err(error) => {
                context
                    .log
                    .error(&format!("{}: {error}", launch.program.display()));
                let words = format!("{}: {}\n", launch.program.display(), error.error);
                self.fail(words.into_bytes(), 1);
            }
        }
        Ok(())
    }

    /// Asks to be told when a child ends.
    fn watch(&self, child: &Child, driver: &mut Driver) -> io::Result<()> {
        driver.watch(
            child.pidfd().as_fd(),
            Token::Child(self.serial).number(),
            true,
            false,
        )
    }

    /// No command runs: the client gets words and a status instead.
    fn fail(&mut self, words: Vec<u8>, status: u8) {
        let words = if self.terminal.is_some() {
            text::with_carriage_returns(&words)
        } else {
            words
        };
        self.unsent.extend(words);
        self.unattached = None;
        self.stage = Stage::Ended {
            status: ExitStatus::Exited(status),
            told: false,
        };
    }
}
