//! `dues completions`.

use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

const EXAMPLES: &str = "Examples:
  dues completions bash > ~/.local/share/bash-completion/completions/dues
  dues completions zsh > ~/.zfunc/_dues              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  dues completions fish > ~/.config/fish/completions/dues.fish
  dues completions elvish > ~/.config/elvish/lib/dues.elv    and `use dues` in ~/.config/elvish/rc.elv
  dues completions powershell | Out-String | Invoke-Expression    in the file that $PROFILE names

Start a new shell, or load them into the current one: source <(dues completions bash); the same for zsh.";
