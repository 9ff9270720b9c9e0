//! Calls other programs, and nothing else in this crate does: iproute2's and `ethtool`.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::HostError;

/// A program and the package that has it.
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
pub(crate) const BRIDGE: Tool = Tool { name: "bridge", package: "iproute2" };
pub(crate) const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };

/// The path of a namespace for a program that has it as standard input. Another path of this process would need rights
/// that `ip` may not have.
pub(crate) const STANDARD_INPUT: &str = "/proc/self/fd/0";

impl Tool {
    /// Run it in the namespace of the calling thread. Returns its output.
    pub(crate) fn run(&self, host: &str, arguments: &[&str], input: Option<&File>) -> Result<String, HostError> {
        let command = format!("{} {}", self.name, arguments.join(" "));
        let doing = |source| HostError::system(format!("`{command}` on host {host}"), source);
        let input = input.map(File::try_clone).transpose().map_err(doing)?;
        let output = Command::new(self.path()?)
            .args(arguments)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .output()
            .map_err(doing)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failure(host, command, &output))
    }

    /// `PATH`, then the directory where Debian keeps programs for root.
    fn path(&self) -> Result<PathBuf, HostError> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
            .map(|directory| directory.join(self.name))
            .find(|program| program.is_file())
            .ok_or(HostError::MissingTool { tool: self.name, package: self.package })
    }
}

fn failure(host: &str, command: String, output: &Output) -> HostError {
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if stderr.contains("Operation not permitted") {
        return HostError::NotPermitted { doing: format!("`{command}` on host {host}") };
    }
    HostError::Command { host: host.to_owned(), command, stderr }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_says_what_to_install() {
        let error = Tool { name: "no-such-tool", package: "some-package" }.run("here", &[], None).unwrap_err();
        assert_eq!(error.to_string(), "`no-such-tool` is not installed: run `apt-get install some-package`");
    }

    #[test]
    fn a_failing_tool_is_quoted_with_its_command() {
        let error = IP.run("here", &["link", "show", "dev", "nosuch0"], None).unwrap_err();
        let HostError::Command { command, stderr, .. } = error else { panic!("{error}") };
        assert_eq!(command, "ip link show dev nosuch0");
        assert!(stderr.contains("does not exist"), "{stderr}");
    }
}
