//! An environment for tests, which takes nothing from the machine.

use std::cell::RefCell;
use std::net::IpAddr;

use crate::environment::{Environment, LocalUser};

/// A fake machine named `box.example` with the user `local` (uid 1000, /home/local).
#[derive(Default)]
pub(crate) struct FakeEnvironment {
    variables: Vec<(String, String)>,
    addresses: Vec<IpAddr>,
    names: Vec<(String, String)>,
    /// Commands that were run, in order.
    pub(crate) commands: RefCell<Vec<String>>,
}

impl FakeEnvironment {
    pub(crate) fn new() -> FakeEnvironment {
        FakeEnvironment::default()
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> FakeEnvironment {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn address(mut self, address: &str) -> FakeEnvironment {
        self.addresses.extend(address.parse::<IpAddr>());
        self
    }

    pub(crate) fn name(mut self, name: &str, canonical: &str) -> FakeEnvironment {
        self.names.push((name.to_owned(), canonical.to_owned()));
        self
    }
}

impl Environment for FakeEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.clone())
    }

    fn local_user(&self) -> LocalUser {
        LocalUser {
            name: "local".to_owned(),
            uid: 1000,
            home: "/home/local".to_owned(),
        }
    }

    fn local_hostname(&self) -> String {
        "box.example".to_owned()
    }

    fn home_of(&self, user: &str) -> Option<String> {
        (user == "bob").then(|| "/home/bob".to_owned())
    }

    /// A command whose first word is `true` succeeds, `false` fails, and others cannot run.
    fn run_shell(&self, command: &str) -> Result<bool, String> {
        self.commands.borrow_mut().push(command.to_owned());
        match command.split(' ').next() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err("no such command".to_owned()),
        }
    }

    fn local_addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    fn canonical_name(&self, name: &str) -> Option<String> {
        self.names
            .iter()
            .find(|(n, _)| n == name.strip_suffix('.').unwrap_or(name))
            .map(|(_, c)| c.clone())
    }
}
