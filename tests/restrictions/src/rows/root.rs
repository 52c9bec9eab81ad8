//! PermitRootLogin in each of its values, with and without a forced command.

use crate::row::Row;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for value in ["yes", "prohibit-password", "without-password"] {
        let permitted = || Row::config(&format!("PermitRootLogin {value}")).root();
        rows.push(permitted());
        rows.push(
            permitted()
                .authorized("command=\"{forced}\" {key}\n")
                .forced(),
        );
        rows.push(
            permitted()
                .authorized("command=\"\" {key}\n")
                .empty_command(),
        );
    }
    let refused = || Row::config("PermitRootLogin no").root().refused();
    rows.push(refused());
    rows.push(refused().authorized("command=\"{forced}\" {key}\n"));
    rows.push(refused().with("ForceCommand {forced}"));
    let forced = || Row::config("PermitRootLogin forced-commands-only").root();
    rows.push(forced().cut());
    rows.push(forced().authorized("command=\"{forced}\" {key}\n").forced());
    rows.push(
        forced()
            .authorized("restrict,command=\"{forced}\" {key}\n")
            .forced()
            .restricted(),
    );
    rows.push(forced().authorized("command=\"\" {key}\n").empty_command());
    rows.push(
        forced()
            .authorized("command=\"internal-sftp\" {key}\n")
            .sftp_only(),
    );
    // A command that is forced for all users is not a command that root's key forces.
    rows.push(forced().with("ForceCommand {forced}").cut());
    let with_certificate = |options: &[&'static str]| {
        let mut row = Row::certificate(options);
        row.first = "PermitRootLogin forced-commands-only\n".into();
        row.name.push_str(", PermitRootLogin forced-commands-only");
        row.root()
    };
    rows.push(with_certificate(&["force-command={forced}"]).forced());
    rows.push(with_certificate(&["critical:force-command="]).empty_command());
    rows.push(with_certificate(&[]).cut());
    rows.push(Row::config("AllowUsers other").root().refused());
    rows.push(Row::config("DenyUsers root").root().refused());
    rows.push(Row::config("AllowUsers root").root());
    let in_match = rows
        .iter()
        .filter(|row| row.certificate.is_none())
        .map(Row::in_match)
        .collect();
    [rows, in_match].concat()
}
