//! Resolves ssh_config for one host: the passes, and the final host name.

use crate::client::canonical::{self, Rules};
use crate::client::knowledge::Knowledge;
use crate::client::options::Canonicalize;
use crate::client::pass::Pass;
use crate::client::table::{CLIENT_TABLE, Row, jumps};
use crate::client::{ClientConfig, ClientOptions, CommandLine, build};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::include::Budget;
use crate::tokens;
use crate::value::{Repeat, Value, Values, default_of};

impl ClientConfig {
    /// Resolves the configuration for `host`, as typed. The command line comes before the files.
    ///
    /// # Errors
    /// [`ConfigError`] if a file cannot be read, a line is bad, a name contains characters that
    /// must not reach a shell, or the configuration refuses the connection (`RefuseConnection`).
    pub fn resolve(
        &self,
        host: &str,
        command_line: &CommandLine,
        environment: &dyn Environment,
    ) -> Result<ClientOptions, ConfigError> {
        if host.is_empty() || !tokens::is_valid_host(host) {
            return Err(ConfigError::Refused(
                "hostname contains invalid characters".to_owned(),
            ));
        }
        let mut knowledge = Knowledge {
            host_argument: host.to_owned(),
            settled_host: None,
            local: environment.local_user(),
            local_hostname: environment.local_hostname(),
        };
        let first = self.pass(&knowledge, command_line, environment, None)?;
        let mut values = first.values;
        let user_is_literal = first.user_is_literal;
        let mut warnings = first.warnings;
        let mut settled = knowledge.hostname(&values).map_err(ConfigError::Refused)?;
        let family = values.get(Row::AddressFamily.index());
        if let Some(address) = canonical::usual_address(&settled, family) {
            settled = address;
        } else if !canonical::is_address(&settled) {
            settled.make_ascii_lowercase();
        }
        let wants_canonical = wants_canonical(&values);
        let canonical = if wants_canonical {
            canonical::canonicalize(&settled, &rules(&values), environment)?
        } else {
            None
        };
        let always = values.get(Row::CanonicalizeHostname.index()) == Some(Canonicalize::Always);
        settled = match canonical {
            Some(name) => name,
            None if always || !is_proxied(&values) => {
                canonical::follow(settled, &rules(&values), environment)
            }
            None => settled,
        };
        if first.wants_final || wants_canonical {
            values.put(Row::HostName.index(), Value::Word(settled.clone()));
            knowledge.settled_host = Some(settled.clone());
            // As in OpenSSH, the settings that led to this name are kept, too.
            for row in [
                Row::CanonicalizeHostname,
                Row::CanonicalizeMaxDots,
                Row::CanonicalizeFallbackLocal,
            ] {
                if let Some(default) = CLIENT_TABLE.get(row.index()).as_ref().and_then(default_of) {
                    values.enter(row.index(), Repeat::First, default);
                }
            }
            let second = self.pass(&knowledge, command_line, environment, Some(values))?;
            values = second.values;
            for warning in second.warnings {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        values.put(Row::HostName.index(), Value::Word(settled));
        build::build(
            self,
            values,
            warnings,
            &knowledge,
            build::Invocation {
                command_line,
                user_is_literal,
            },
            environment,
        )
    }

    /// `EnableSSHKeysign`, as ssh-keysign(8) reads it: for a host without a name, of whose patterns `*`
    /// matches and `?*` does not, and in one pass, so that no name is looked up and `Match final` and
    /// `Match canonical` do not apply.
    ///
    /// # Errors
    /// [`ConfigError`] if a file cannot be read or a line is bad.
    pub fn enables_keysign(&self, environment: &dyn Environment) -> Result<bool, ConfigError> {
        let knowledge = Knowledge {
            host_argument: String::new(),
            settled_host: None,
            local: environment.local_user(),
            local_hostname: environment.local_hostname(),
        };
        let only = self.pass(&knowledge, &CommandLine::new(), environment, None)?;
        Ok(only.values.get(Row::EnableSSHKeysign.index()) == Some(true))
    }

    fn pass(
        &self,
        knowledge: &Knowledge,
        command_line: &CommandLine,
        environment: &dyn Environment,
        values: Option<Values>,
    ) -> Result<Outcome, ConfigError> {
        let mut pass = Pass {
            config: self,
            environment,
            command_line,
            knowledge,
            final_pass: values.is_some(),
            user_is_literal: false,
            wants_final: false,
            values: values.unwrap_or_else(|| Values::empty(CLIENT_TABLE.len())),
            warnings: Vec::new(),
            messages: Vec::new(),
            budget: Budget::default(),
        };
        pass.command_line();
        // As in OpenSSH, a bad -o is reported before a file is read, and a bad file of the user
        // before the system's is read.
        if !pass.messages.is_empty() {
            return Err(ConfigError::Refused(pass.messages.join("\n")));
        }
        let mut file = String::new();
        for source in &self.sources {
            if !pass.messages.is_empty() {
                break;
            }
            file = source.path.to_string_lossy().into_owned();
            pass.source(source);
        }
        if !pass.messages.is_empty() {
            return Err(ConfigError::BadLines {
                messages: pass.messages,
                file,
            });
        }
        Ok(Outcome {
            values: pass.values,
            warnings: pass.warnings,
            wants_final: pass.wants_final,
            user_is_literal: pass.user_is_literal,
        })
    }
}

struct Outcome {
    values: Values,
    warnings: Vec<crate::error::Warning>,
    wants_final: bool,
    user_is_literal: bool,
}

fn wants_canonical(values: &Values) -> bool {
    match values.get(Row::CanonicalizeHostname.index()) {
        Some(Canonicalize::Always) => true,
        Some(Canonicalize::Yes) => !is_proxied(values),
        Some(Canonicalize::No) | None => false,
    }
}

/// True if a proxy resolves the host name.
fn is_proxied(values: &Values) -> bool {
    let command = values.at(Row::ProxyCommand.index());
    let has_command = matches!(command, Some(Value::Word(word)) if word != "none");
    has_command || !jumps(values).is_empty()
}

fn rules(values: &Values) -> Rules<'_> {
    let list = |key: Row| match values.words(key.index()) {
        [only] if only == "none" => &[][..],
        words => words,
    };
    let default = |key: Row| CLIENT_TABLE.get(key.index()).as_ref().and_then(default_of);
    let max_dots = match values
        .at(Row::CanonicalizeMaxDots.index())
        .cloned()
        .or_else(|| default(Row::CanonicalizeMaxDots))
    {
        Some(Value::Number(dots)) => u32::try_from(dots).unwrap_or(0),
        _ => 1,
    };
    Rules {
        domains: list(Row::CanonicalDomains),
        max_dots,
        fallback_local: !matches!(
            values.at(Row::CanonicalizeFallbackLocal.index()),
            Some(Value::Flag(false))
        ),
        permitted_cnames: match values.at(Row::CanonicalizePermittedCNAMEs.index()) {
            Some(Value::CnameRules(rules)) => rules,
            _ => &[],
        },
    }
}
