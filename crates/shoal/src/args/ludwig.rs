//! `shoal ludwig`'s command line: everything is passed on.

use clap::Args as ClapArgs;

/// Run a Ludwig project: params.py, job.py, results in runs/param_NNN.
///
/// Use it in the root of a project that was made for `ludwig`; the flags are the same. All arguments go to `python -m shoal.ludwig`, with the python of
/// $VIRTUAL_ENV or else of PATH.
#[derive(Debug, ClapArgs)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Args {
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<std::ffi::OsString>,
}
