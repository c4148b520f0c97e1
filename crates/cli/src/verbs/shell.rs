//! `relight completions` and `relight man`: made from the same definitions as the flags themselves.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use super::live_names;
use crate::arguments::Cli;
use crate::arguments::other::{CompletionsArguments, ManArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Outcome};
use crate::{output, whole_file};

/// Live names first, else what the generated script offers.
const BASH: &str = r#"_relight() {
    local line="${COMP_LINE:0:COMP_POINT}" words current
    read -ra words <<<"$line"
    [[ "$line" == *' ' ]] && words+=("")
    current="${words[${#words[@]}-1]}"
    COMPREPLY=($(relight completions bash -- "${words[@]}" 2>/dev/null))
    # Bash replaces only what follows the last of these characters.
    COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*[:=@]}"}"}")
    [[ ${#COMPREPLY[@]} -gt 0 ]] || _relight_static "$@"
}

"#;
const ZSH: &str = r#"_relight() {
    local names="$(relight completions zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)"
    if [[ -n "$names" ]]; then
        compadd -- "${(@f)names}"
    else
        _relight_static "$@"
    fi
}

"#;
const FISH: &str = r"
function __relight_names
    relight completions fish -- (commandline -opc) (commandline -ct) 2>/dev/null
end
";

pub(crate) fn completions(arguments: &CompletionsArguments) -> Outcome {
    if !arguments.words.is_empty() {
        let names = live_names::candidates(&arguments.words);
        output::write_out(
            names
                .iter()
                .map(|name| format!("{name}\n"))
                .collect::<String>()
                .as_bytes(),
        );
        return Ok(0);
    }
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "relight", &mut script);
    let script = String::from_utf8(script).expect("the flags are UTF-8");
    let with = |first: &str| {
        assert!(
            script.contains("_relight() {"),
            "the generated function has this name"
        );
        script.replacen("_relight() {", &format!("{first}_relight_static() {{"), 1)
    };
    let script = match arguments.shell {
        Shell::Bash => with(BASH),
        Shell::Zsh => with(ZSH),
        Shell::Fish => script + &fish_names(),
        _ => script,
    };
    output::write_out(script.as_bytes());
    Ok(0)
}

/// Live names take the place of files, at arguments and as values of options.
fn fish_names() -> String {
    let options = live_names::options(&Cli::command());
    let options = options.iter().map(|name| format!("-l {name} -x"));
    let complete = |what: String| {
        let when = "'__relight_names | string length -q'";
        format!("complete -c relight -n {when} {what} -a '(__relight_names)'\n")
    };
    let lines = std::iter::once("-f".to_owned()).chain(options);
    FISH.to_owned() + &lines.map(complete).collect::<String>()
}

pub(crate) fn man(environment: &Environment, arguments: &ManArguments) -> Outcome {
    // The pages of `help` would say what every other page says.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &arguments.dir {
        Some(folder) => write_pages(environment, command, folder),
        None => {
            output::write_out(&page(command));
            Ok(0)
        }
    }
}

fn write_pages(environment: &Environment, command: Command, folder: &Path) -> Outcome {
    let mut left = vec![command];
    let mut written = Vec::new();
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().cloned());
        let path = folder.join(Man::new(command.clone()).get_filename());
        whole_file::replace(&path, &page(command))
            .map_err(|error| whole_file::failure("write", &path, &error))?;
        written.push(path);
    }
    written.sort();
    let text = format!("{} pages are in {}", written.len(), folder.display());
    output::answer(environment, &json!({"files": written}), &text);
    Ok(0)
}

fn page(command: Command) -> Vec<u8> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let manual = Man::new(command).source(concat!("relight ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    manual
        .render(&mut text)
        .expect("writing to memory cannot fail");
    let text = String::from_utf8(text).expect("the flags are UTF-8");
    let mut text = text
        .replacen(".SH EXTRA\n", ".SH EXAMPLES\n", 1)
        .into_bytes();
    text.extend(exit_status().into_bytes());
    if name != "relight" {
        text.extend(b".SH \"SEE ALSO\"\n\\fBrelight\\fR(1)\n");
    }
    text
}

fn exit_status() -> String {
    let mut text = ".SH \"EXIT STATUS\"\n.TP\n0\ndone\n".to_owned();
    for exit in Exit::ALL {
        text += &format!(".TP\n{}\n{}\n", exit as u8, exit.meaning());
    }
    text
}
