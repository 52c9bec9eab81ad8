//! The change of a process into the background after its login: of `-f`, and of a master that
//! persists (`ControlPersist`). Such a master is a new process without any descriptor of the first
//! one's caller; the first one goes on as its passenger.

use config::client::ClientOptions;
use driver::Driver;

use super::master::Master;
use super::passenger::{self, Boarding, KeptPlace, Ride};
use crate::error::ClientError;
use crate::error::FAILURE;
use crate::log::{self, debug1, fatal};
use crate::plan::{Plan, What};
use crate::text::one_line;

/// How the process leaves its caller.
pub(crate) enum Leave {
    /// The caller goes on at once (`-f`; a persisting master without a session).
    Background,
    /// The master leaves, and this process becomes a passenger with this plan.
    Master {
        options: Box<ClientOptions>,
        plan: Box<Plan>,
        /// At another master, for this process alone.
        kept: Option<KeptPlace>,
    },
}

impl Leave {
    /// Leaves the caller. The half that returns is in the background.
    pub(crate) fn go(
        self,
        master: Option<&mut Master>,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        match (self, master) {
            (Self::Background, master) => {
                crate::local::go_to_background()?;
                master.map_or(Ok(()), be_alone)
            }
            (
                Self::Master {
                    options,
                    plan,
                    kept,
                },
                Some(master),
            ) => {
                debug1!("backgrounding master process");
                // The threads would be lost in the child.
                driver.end_workers();
                let child = sys::process::fork().map_err(ClientError::system("fork"))?;
                if child.is_some() {
                    sys::process::exit_at_once(become_passenger(master, &options, &plan));
                }
                if let Some(kept) = kept {
                    kept.give_up();
                }
                let last = if log::debugs_on_stderr() { 1 } else { 2 };
                sys::process::leave_terminal(last).map_err(ClientError::system("setsid"))?;
                be_alone(master)
            }
            (Self::Master { .. }, None) => Ok(()),
        }
    }
}

/// Says in the list of processes whose master this is, and lets go of what the caller has passed.
fn be_alone(master: &mut Master) -> Result<(), ClientError> {
    if let Some(path) = master.path() {
        let title = format!("ssh: {} [mux]", path.display());
        let _ = sys::process::set_long_title(&title);
    }
    sys::process::close_inherited().map_err(ClientError::system("close"))
}

fn become_passenger(master: &mut Master, options: &ClientOptions, plan: &Plan) -> i32 {
    master.abandon();
    let path = options.connection.control_path.as_deref();
    let path = path.unwrap_or_default();
    match passenger::ride(path, options, plan, Boarding::Founder) {
        Ok(Ride::Arrived(code)) => code,
        Ok(Ride::PassedOver | Ride::Full(_)) => {
            fatal!("Failed to connect to new control master {}", one_line(path));
            FAILURE
        }
        Err(ClientError::Said) => FAILURE,
        Err(reason) => {
            fatal!("{reason}");
            FAILURE
        }
    }
}

/// The plan of the master whose first session is its passenger.
pub(crate) fn plan_of_master(plan: &Plan) -> Plan {
    Plan {
        what: What::Nothing,
        pty: None,
        environment: Vec::new(),
        stdin_null: true,
        escape: None,
        command_line: false,
        ..plan.clone()
    }
}
