//! Completion for bash, zsh and fish, from the table of [`flags`].
//!
//! They complete only `fulmar`: links with OpenSSH's names accept OpenSSH's flags, and the system's
//! completions for OpenSSH work for them.

use config::client::CLIENT_TABLE;
use config::server::SERVER_TABLE;
use config::value::{Kind, Support, Table};

use super::Made;
use flags::{Argument, Flag, PROGRAMS, Program};

const HEAD: &str = "made by `cargo xtask man` from crates/flags/src/tables.rs; change that.";

pub(super) fn all() -> Vec<Made> {
    vec![
        Made {
            path: "completion/fulmar.bash",
            text: bash(),
        },
        Made {
            path: "completion/_fulmar",
            text: zsh(),
        },
        Made {
            path: "completion/fulmar.fish",
            text: fish(),
        },
    ]
}

fn offered(program: &Program) -> impl Iterator<Item = &'static Flag> {
    program.flags.iter().filter(|flag| flag.is_offered())
}

/// A flag as it is typed.
fn typed(flag: &Flag) -> String {
    match flag.name.len() {
        1 => format!("-{}", flag.name),
        _ => format!("--{}", flag.name),
    }
}

/// Supported keywords, in the order of their names.
fn keywords(table: Table) -> Vec<&'static str> {
    let mut names: Vec<&str> = table
        .iter()
        .filter(|row| !matches!(row.kind, Kind::Structure))
        .filter(|row| matches!(row.support, Support::Carried | Support::Partly(..)))
        .map(|row| row.name)
        .collect();
    names.sort_unstable();
    names
}

/// Names of the programs that every build has, or of those of builds with `bench`.
fn names(is_bench: bool) -> String {
    let programs = PROGRAMS
        .iter()
        .filter(|program| program.is_bench == is_bench);
    let names: Vec<&str> = programs.map(|program| program.name).collect();
    names.join(" ")
}

/// Lines about a program, between comments if only builds with the feature `bench` have it:
/// `fulmar install` of other builds leaves them out (crates/install/build.rs).
fn of_its_builds(program: &Program, lines: &str) -> String {
    match program.is_bench && !lines.is_empty() {
        true => format!("# bench: begin\n{lines}# bench: end\n"),
        false => lines.to_owned(),
    }
}

// ---- bash -------------------------------------------------------------------------------------

fn bash() -> String {
    let mut values = String::new();
    let mut flags = String::new();
    let mut operands = String::new();
    for program in PROGRAMS {
        let name = program.name;
        let mut cases = String::new();
        for flag in offered(program) {
            if flag.argument != Argument::None {
                let action = bash_action(flag.argument);
                cases.push_str(&format!("        {name}:{}) {action} ;;\n", typed(flag)));
            }
        }
        values.push_str(&of_its_builds(program, &cases));
        let typed: Vec<String> = offered(program).map(typed).collect();
        let case = format!("        {name}) _fulmar_words '{}' ;;\n", typed.join(" "));
        flags.push_str(&of_its_builds(program, &case));
        if !matches!(program.operand, Argument::None | Argument::Free(_)) {
            let case = format!("        {name}) {} ;;\n", bash_action(program.operand));
            operands.push_str(&of_its_builds(program, &case));
        }
    }
    format!(
        "# Completion of fulmar for bash; {HEAD}\n\
         \n\
         _fulmar_words() {{ COMPREPLY=($(compgen -W \"$1\" -- \"$_fulmar_current\")); }}\n\
         _fulmar_query() {{ _fulmar_words \"$(fulmar ssh -Q \"$1\" 2>/dev/null)\"; }}\n\
         _fulmar_files() {{ compopt -o filenames; COMPREPLY=($(compgen -f -- \"$_fulmar_current\")); }}\n\
         _fulmar_folders() {{ compopt -o filenames; COMPREPLY=($(compgen -d -- \"$_fulmar_current\")); }}\n\
         _fulmar_users() {{ COMPREPLY=($(compgen -u -- \"$_fulmar_current\")); }}\n\
         _fulmar_hosts() {{\n\
         \x20   local user= name=$_fulmar_current\n\
         \x20   if [[ $name == *@* ]]; then user=${{name%%@*}}@ name=${{name#*@}}; fi\n\
         \x20   local known\n\
         \x20   known=$(sed -n 's/^[[:space:]]*[Hh]ost[[:space:]=]*//p' ~/.ssh/config 2>/dev/null |\n\
         \x20       tr ' ' '\\n' | grep -v '[*?!]')\n\
         \x20   COMPREPLY=($(compgen -P \"$user\" -A hostname -W \"$known\" -- \"$name\"))\n\
         }}\n\
         _fulmar_options() {{\n\
         \x20   compopt -o nospace\n\
         \x20   case $1 in\n\
         \x20       ssh) _fulmar_words '{client}' ;;\n\
         \x20       sshd) _fulmar_words '{server}' ;;\n\
         \x20   esac\n\
         }}\n\
         \n\
         _fulmar() {{\n\
         \x20   local _fulmar_current=${{COMP_WORDS[COMP_CWORD]}}\n\
         \x20   local program=${{COMP_WORDS[1]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n\
         \x20   if [ \"$COMP_CWORD\" -eq 1 ]; then\n\
         \x20       local programs='{names} help version'\n\
         # bench: begin\n\
         \x20       programs+=' {bench_names}'\n\
         # bench: end\n\
         \x20       _fulmar_words \"$programs\"\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case $program:$previous in\n\
         {values}\
         \x20       *)\n\
         \x20           case $_fulmar_current in\n\
         \x20               -*) _fulmar_flags \"$program\" ;;\n\
         \x20               *) _fulmar_operand \"$program\" ;;\n\
         \x20           esac\n\
         \x20           ;;\n\
         \x20   esac\n\
         }}\n\
         _fulmar_flags() {{\n\
         \x20   case $1 in\n\
         {flags}\
         \x20   esac\n\
         }}\n\
         _fulmar_operand() {{\n\
         \x20   case $1 in\n\
         {operands}\
         \x20   esac\n\
         }}\n\
         complete -F _fulmar fulmar\n",
        client = with_sign(CLIENT_TABLE).join(" "),
        server = with_sign(SERVER_TABLE).join(" "),
        names = names(false),
        bench_names = names(true),
    )
}

fn with_sign(table: Table) -> Vec<String> {
    keywords(table)
        .into_iter()
        .map(|name| format!("{name}="))
        .collect()
}

fn bash_action(argument: Argument) -> String {
    match argument {
        Argument::None | Argument::Free(_) => ":".to_owned(),
        Argument::File => "_fulmar_files".to_owned(),
        Argument::Directory => "_fulmar_folders".to_owned(),
        Argument::Host => "_fulmar_hosts".to_owned(),
        Argument::User => "_fulmar_users".to_owned(),
        Argument::SshOption => "_fulmar_options ssh".to_owned(),
        Argument::SshdOption => "_fulmar_options sshd".to_owned(),
        Argument::Query(list) => format!("_fulmar_query {list}"),
        Argument::Words(words) => format!("_fulmar_words '{}'", words.join(" ")),
    }
}

// ---- zsh --------------------------------------------------------------------------------------

fn zsh() -> String {
    let mut programs = String::new();
    let mut cases = String::new();
    for program in PROGRAMS {
        let name = program.name;
        let line = format!("            '{name}:{}'\n", zsh_text(program.help));
        programs.push_str(&of_its_builds(program, &line));
        let mut case = format!("        {name}) _arguments -s -S \\\n");
        for flag in offered(program) {
            case.push_str(&format!("            {} \\\n", zsh_flag(flag)));
        }
        case.push_str(&format!("            {} ;;\n", zsh_operand(program)));
        cases.push_str(&of_its_builds(program, &case));
    }
    format!(
        "#compdef fulmar\n\
         # Completion of fulmar for zsh; {HEAD}\n\
         \n\
         _fulmar_query() {{\n\
         \x20   local -a names\n\
         \x20   names=(${{(f)\"$(fulmar ssh -Q $1 2>/dev/null)\"}})\n\
         \x20   compadd -a \"$@[2,-1]\" names\n\
         }}\n\
         _fulmar_ssh_options() {{\n\
         \x20   local -a names\n\
         \x20   names=({client})\n\
         \x20   compadd -S = \"$@\" -a names\n\
         }}\n\
         _fulmar_sshd_options() {{\n\
         \x20   local -a names\n\
         \x20   names=({server})\n\
         \x20   compadd -S = \"$@\" -a names\n\
         }}\n\
         \n\
         _fulmar() {{\n\
         \x20   local -a programs\n\
         \x20   if (( CURRENT == 2 )); then\n\
         \x20       programs=(\n\
         {programs}\
         \x20       )\n\
         \x20       _describe program programs\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   local program=$words[2]\n\
         \x20   shift words\n\
         \x20   (( CURRENT-- ))\n\
         \x20   case $program in\n\
         {cases}\
         \x20   esac\n\
         }}\n\
         \n\
         _fulmar \"$@\"\n",
        client = keywords(CLIENT_TABLE).join(" "),
        server = keywords(SERVER_TABLE).join(" "),
    )
}

/// Escapes text inside single quotes and a specification of `_arguments`.
fn zsh_text(text: &str) -> String {
    text.replace('\'', "'\\''")
        .replace(':', "\\:")
        .replace('[', "\\[")
        .replace(']', "\\]")
}

fn zsh_flag(flag: &Flag) -> String {
    let (typed, help) = (typed(flag), zsh_text(flag.help));
    // Some flags may be repeated.
    let star = if matches!(flag.name, "v" | "d" | "t" | "o" | "i" | "O" | "h" | "peer") {
        "*"
    } else {
        ""
    };
    match flag.argument {
        Argument::None => format!("'{star}{typed}[{help}]'"),
        argument => {
            let joined = if flag.name.len() == 1 { "+" } else { "" };
            format!("'{star}{typed}{joined}[{help}]{}'", zsh_action(argument))
        }
    }
}

fn zsh_action(argument: Argument) -> String {
    match argument {
        Argument::None => String::new(),
        Argument::File => ":file:_files".to_owned(),
        Argument::Directory => ":folder:_files -/".to_owned(),
        Argument::Host => ":host:_hosts".to_owned(),
        Argument::User => ":user:_users".to_owned(),
        Argument::SshOption => ":option:_fulmar_ssh_options".to_owned(),
        Argument::SshdOption => ":option:_fulmar_sshd_options".to_owned(),
        Argument::Query(list) => format!(":name:_fulmar_query {list}"),
        Argument::Words(words) => format!(":word:({})", words.join(" ")),
        Argument::Free(what) => format!(":{}:", zsh_text(what)),
    }
}

fn zsh_operand(program: &Program) -> String {
    match program.operand {
        Argument::None => "':'".to_owned(),
        // A host, then the words of a command.
        Argument::Host => "'1:host:_hosts' '*:command:_default'".to_owned(),
        argument => format!("'*{}'", zsh_action(argument)),
    }
}

// ---- fish -------------------------------------------------------------------------------------

fn fish() -> String {
    let mut out = format!(
        "# Completion of fulmar for fish; {HEAD}\n\
         \n\
         complete -c fulmar -f\n"
    );
    for program in PROGRAMS {
        let line = format!(
            "complete -c fulmar -n __fish_use_subcommand -a {} -d {}\n",
            program.name,
            fish_text(program.help)
        );
        out.push_str(&of_its_builds(program, &line));
    }
    for program in PROGRAMS {
        let condition = format!(
            "complete -c fulmar -n '__fish_seen_subcommand_from {}'",
            program.name
        );
        let mut lines = String::new();
        for flag in offered(program) {
            let kind = if flag.name.len() == 1 { "-s" } else { "-l" };
            lines.push_str(&format!(
                "{condition} {kind} {}{} -d {}\n",
                flag.name,
                fish_action(flag.argument, true),
                fish_text(flag.help)
            ));
        }
        let operand = fish_action(program.operand, false);
        if !operand.is_empty() {
            lines.push_str(&format!("{condition}{operand}\n"));
        }
        out.push_str(&of_its_builds(program, &lines));
    }
    out
}

fn fish_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// `-r`: a value follows, and file names are offered; `-x`: a value follows, without file names.
fn fish_action(argument: Argument, of_flag: bool) -> String {
    let exclusive = if of_flag { " -x" } else { "" };
    match argument {
        Argument::None => String::new(),
        Argument::Free(_) => exclusive.to_owned(),
        Argument::File if of_flag => " -r -F".to_owned(),
        Argument::File => " -F".to_owned(),
        Argument::Directory => format!("{exclusive} -a '(__fish_complete_directories)'"),
        Argument::Host => format!("{exclusive} -a '(__fish_complete_user_at_hosts)'"),
        Argument::User => format!("{exclusive} -a '(__fish_complete_users)'"),
        Argument::SshOption => format!("{exclusive} -a '{}'", with_sign(CLIENT_TABLE).join(" ")),
        Argument::SshdOption => {
            format!("{exclusive} -a '{}'", with_sign(SERVER_TABLE).join(" "))
        }
        Argument::Query(list) => format!("{exclusive} -a '(fulmar ssh -Q {list})'"),
        Argument::Words(words) => format!("{exclusive} -a '{}'", words.join(" ")),
    }
}
