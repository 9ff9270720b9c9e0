//! The rules for attaching: which users may attach, under which names, how often, and with what share.
//!
//! The socket's file permissions decide which users may connect at all. Without a file of rules, a program that connects may take any
//! free name. With one, the first rule that fits a program's user or group decides; a program that none fits is refused. What a reader could
//! take for something else is an error: a file without a rule, a `*` in the middle of a name, a rule that decides nothing.
//!
//! ```toml
//! [[allow]]
//! user = "alice"            # or a number
//! names = ["alpha", "worker-*"]
//! ports = 4
//! weight = 2
//! queue = true              # a queue of the NIC for itself, if one is free
//!
//! [[allow]]
//! group = "cluster"         # also a user's further groups
//! ```

use am_wire::control::Name;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use serde::Deserialize;

use crate::address::MAX_PORTS;
use crate::member::Owner;
use crate::schedule::MAX_WEIGHT;

/// The rules of a configuration file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The first that fits decides. Without any, everybody may attach.
    #[serde(default)]
    allow: Vec<Rule>,
}

/// A rule for a user or a group; for everybody if it names neither.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Rule {
    user: Option<Account>,
    group: Option<Account>,
    /// Names of nodes; one that ends with `*` stands for all that begin so. Without any, all.
    names: Option<Vec<String>>,
    /// The most ports of one user.
    #[serde(default = "all_ports")]
    ports: usize,
    /// The weight of each port.
    #[serde(default = "one")]
    weight: u32,
    /// Whether its programs are trusted with queues of the NIC.
    #[serde(default)]
    queue: bool,
}

impl Rule {
    /// Check its numbers and names.
    fn check(&self) -> Result<(), AccessError> {
        if !(1..=MAX_WEIGHT).contains(&self.weight) {
            return Err(AccessError::Weight(self.weight));
        }
        if !(1..=MAX_PORTS).contains(&self.ports) {
            return Err(AccessError::Ports(self.ports));
        }
        let Some(names) = &self.names else { return Ok(()) };
        if names.is_empty() {
            return Err(AccessError::NoNames);
        }
        names.iter().try_for_each(|pattern| check_pattern(pattern))
    }

    /// Whether each program that the other rule fits is one that this rule fits.
    fn covers(&self, other: &Rule) -> bool {
        let covers = |own: &Option<Account>, its: &Option<Account>| own.is_none() || own == its;
        covers(&self.user, &other.user) && covers(&self.group, &other.group)
    }
}

/// Characters that have a meaning in the patterns or the lists of other programs, and none here.
const MEANINGLESS: &str = "*?[]{}()|^$%\\,;\"'";

/// Check a name, or the beginning of one with a `*` behind it.
fn check_pattern(pattern: &str) -> Result<(), AccessError> {
    let start = pattern.strip_suffix('*').unwrap_or(pattern);
    if pattern != "*" && Name::new(start).is_none() {
        return Err(AccessError::Name(pattern.to_owned()));
    }
    match start.chars().find(|character| MEANINGLESS.contains(*character)) {
        Some(character) => Err(AccessError::Pattern { pattern: pattern.to_owned(), character }),
        None if start.trim() != start => Err(AccessError::Space(pattern.to_owned())),
        None => Ok(()),
    }
}

fn all_ports() -> usize {
    MAX_PORTS
}

fn one() -> u32 {
    1
}

/// A user or a group, by number or by name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged, expecting = "a name in quotes or a number from 0 goes here")]
enum Account {
    Number(u32),
    Name(String),
}

/// A rule is wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The text is no such file.
    #[error("{0}rules are written as `[[allow]]` and lines below it, as in `user = \"alice\"`")]
    Text(String),
    /// There is no such user or group.
    #[error("there is no {what} `{name}` on this machine: write another, or a number")]
    NoAccount {
        /// User or group.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A number is out of range.
    #[error("`weight = {0}` is out of range: 1 to {MAX_WEIGHT}")]
    Weight(u32),
    /// A number is out of range.
    #[error("`ports = {0}` is out of range: 1 to {MAX_PORTS}; a user for whom there is no rule may not attach")]
    Ports(usize),
    /// No name is allowed.
    #[error(
        "`names = []` allows no name: write some, as in `names = [\"worker-*\"]`, or leave `names` out to allow all"
    )]
    NoNames,
    /// No node can have the name.
    #[error("no node can have the name `{0}` in `names`: a name has 1 to {most} bytes and no control characters, and a `*` at its end stands for any rest", most = Name::MAX_BYTES)]
    Name(String),
    /// A character that has no meaning, and looks as if it had one.
    #[error(
        "`{character}` in `names = [\"{pattern}\"]` stands for nothing but itself; only a `*` at the end has a meaning, any rest: end the name before it with a `*`, and write each name in quotes of its own"
    )]
    Pattern {
        /// The name.
        pattern: String,
        /// The character.
        character: char,
    },
    /// A name that is not the one that it looks like.
    #[error("`names = [\"{0}\"]` has a space at an end of the name: take it away")]
    Space(String),
    /// A file without a rule.
    #[error(
        "there is no rule, so nothing could attach: write one, as in `[[allow]]` and `user = \"alice\"`; `[[allow]]` alone is for everybody, as is a daemon without `--config`"
    )]
    NoRule,
    /// The number of no account.
    #[error("{0} is the number of no user and no group: write another")]
    NoNumber(u32),
    /// The accounts cannot be asked.
    #[error("the {what} `{name}` cannot be looked up: {why}; write its number")]
    Lookup {
        /// User or group.
        what: &'static str,
        /// Its name.
        name: String,
        /// What the system says.
        why: Errno,
    },
    /// A rule that decides nothing.
    #[error(
        "rule {earlier} fits each program that rule {later} fits, so rule {later} decides nothing: put it before, make one of the two, or leave it out"
    )]
    Shadowed {
        /// The number of the rule that decides.
        earlier: usize,
        /// The number of the rule that does not.
        later: usize,
    },
}

am_transport::debug_as_display!(AccessError);

/// What a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The most ports of its user.
    pub ports: usize,
    /// Its weight.
    pub weight: u32,
    /// Whether it gets a queue of the NIC, if one is free.
    pub queue: bool,
}

impl Access {
    /// Read rules.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn parse(text: &str) -> Result<Access, AccessError> {
        let mut access: Access = toml::from_str(text).map_err(|error| AccessError::Text(error.to_string()))?;
        for rule in &mut access.allow {
            rule.check()?;
            resolve(&mut rule.user, user_number)?;
            resolve(&mut rule.group, group_number)?;
        }
        let mut rules = access.allow.iter().enumerate();
        let earlier = |later: usize, rule: &Rule| access.allow[..later].iter().position(|other| other.covers(rule));
        let shadowed = rules.find_map(|(later, rule)| Some((earlier(later, rule)?, later)));
        match shadowed {
            _ if access.allow.is_empty() => Err(AccessError::NoRule),
            Some((earlier, later)) => Err(AccessError::Shadowed { earlier: earlier + 1, later: later + 1 }),
            None => Ok(access),
        }
    }

    /// The rule for a program. `None` if no rule is for it.
    fn rule(&self, owner: &Owner) -> Option<&Rule> {
        let is =
            |account: &Option<Account>, number: u32| account.as_ref().is_none_or(|its| *its == Account::Number(number));
        let fits = |rule: &&Rule| {
            is(&rule.user, owner.uid)
                && (is(&rule.group, owner.gid) || groups_of(owner).iter().any(|group| is(&rule.group, group.as_raw())))
        };
        self.allow.iter().find(fits)
    }

    /// What a program may have.
    ///
    /// # Errors
    /// Why it may not attach.
    pub fn allowance(&self, owner: &Owner) -> Result<Allowance, String> {
        match self.rule(owner) {
            Some(rule) => Ok(Allowance { ports: rule.ports, weight: rule.weight, queue: rule.queue }),
            None if self.allow.is_empty() => Ok(Allowance { ports: MAX_PORTS, weight: 1, queue: false }),
            None => Err(format!("no rule allows user {}: add one to the daemon's configuration", owner.uid)),
        }
    }

    /// Whether a program may have this name.
    ///
    /// # Errors
    /// Why not.
    pub fn check_name(&self, owner: &Owner, name: &Name) -> Result<(), String> {
        let Some(names) = self.rule(owner).and_then(|rule| rule.names.as_ref()) else { return Ok(()) };
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => name.as_str().starts_with(start),
            None => name.as_str() == pattern,
        };
        if names.iter().any(fits) {
            return Ok(());
        }
        Err(format!("user {} may not have the name `{name}`: the names are {}", owner.uid, names.join(", ")))
    }
}

/// The number of a user.
///
/// # Errors
/// See [`AccessError`].
pub fn user_number(name: &str) -> Result<u32, AccessError> {
    let found = User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
    number_of("user", name, found)
}

/// The number of a group.
///
/// # Errors
/// See [`AccessError`].
pub fn group_number(name: &str) -> Result<u32, AccessError> {
    let found = Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
    number_of("group", name, found)
}

fn number_of(what: &'static str, name: &str, found: nix::Result<Option<u32>>) -> Result<u32, AccessError> {
    let name = || name.to_owned();
    match found {
        Ok(Some(number)) => Ok(number),
        // As some systems say that there is none.
        Ok(None) | Err(Errno::ENOENT | Errno::ESRCH) => Err(AccessError::NoAccount { what, name: name() }),
        Err(why) => Err(AccessError::Lookup { what, name: name(), why }),
    }
}

/// A number, if it can be an account's. The system takes the highest one for "no change".
///
/// # Errors
/// [`AccessError::NoNumber`].
pub fn check_number(number: u32) -> Result<u32, AccessError> {
    if number == u32::MAX { Err(AccessError::NoNumber(number)) } else { Ok(number) }
}

fn resolve(
    account: &mut Option<Account>,
    number_of: impl Fn(&str) -> Result<u32, AccessError>,
) -> Result<(), AccessError> {
    let number = match account {
        None => return Ok(()),
        Some(Account::Number(number)) => check_number(*number)?,
        Some(Account::Name(name)) => number_of(name)?,
    };
    *account = Some(Account::Number(number));
    Ok(())
}

/// The further groups of a program's user, as the system's accounts say.
fn groups_of(owner: &Owner) -> Vec<Gid> {
    let user = User::from_uid(Uid::from_raw(owner.uid)).ok().flatten();
    let name = user.and_then(|user| std::ffi::CString::new(user.name).ok());
    name.and_then(|name| getgrouplist(&name, Gid::from_raw(owner.gid)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Owner = Owner { uid: 65_534, gid: 65_534, pid: 1 };
    const ROOT: Owner = Owner { uid: 0, gid: 0, pid: 1 };

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn without_rules_everybody_may_have_any_name() {
        let access = Access::default();
        assert_eq!(access.allowance(&NOBODY), Ok(Allowance { ports: MAX_PORTS, weight: 1, queue: false }));
        assert_eq!(access.check_name(&NOBODY, &name("alpha")), Ok(()));
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = r#"
            [[allow]]
            user = "root"
            names = ["alpha", "worker-*"]
            ports = 2
            weight = 3
            queue = true
            [[allow]]
            group = "root"
            ports = 9
        "#;
        let access = Access::parse(text).unwrap();
        assert_eq!(access.allowance(&ROOT), Ok(Allowance { ports: 2, weight: 3, queue: true }));
        for (text, may) in [("alpha", true), ("worker-7", true), ("worker", false), ("alphabet", false)] {
            assert_eq!(access.check_name(&ROOT, &name(text)).is_ok(), may, "{text}");
        }
        assert!(access.allowance(&NOBODY).unwrap_err().contains("65534"));
    }

    #[test]
    fn a_rule_for_a_group_fits_its_members() {
        let access = Access::parse("[[allow]]\ngroup = 65534\nweight = 5").unwrap();
        assert_eq!(access.allowance(&NOBODY).map(|allowance| allowance.weight), Ok(5));
        assert!(access.allowance(&ROOT).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let long = |end: &str| format!("[[allow]]\nnames = [\"{}{end}", "a".repeat(100));
        for (text, word) in [
            ("[[allow]]\nuser = \"no such user\"", "no such user"),
            ("[[allow]]\nweight = 0", "weight"),
            ("[[allow]]\nports = 0", "1 to 128"),
            ("[[allow]]\nports = 5000", "1 to 128"),
            ("[[allow]]\nnames = []", "allows no name"),
            ("[[allow]]\nnames = [\"a\", \"\"]", "no node can have"),
            (&long("\"]"), "no node can have"),
            (&long("*\"]"), "no node can have"),
            ("[[allow]]\nname = \"a\"", "name"),
            ("[[allow]]\nuser = -1", "a number from 0"),
            ("[[allow]]\nuser = 1\n[[allow]]\n[[allow]]\nuser = 2", "rule 2 fits each program that rule 3 fits"),
            ("[[allow]]\nuser = \"root\"\n[[allow]]\nuser = 0\ngroup = 1", "rule 2 decides nothing"),
            ("[[allow]]\n[[allow]]", "rule 2 decides nothing"),
            ("allow", "allow"),
            ("[allow]\nuser = 1", "written as `[[allow]]`"),
            ("[[allow]]\nuser = 1\nuser = 2", "duplicate key"),
            ("[[allow]]\nqueue = 1", "a boolean"),
            ("", "there is no rule"),
            ("# user = \"alice\"\n", "there is no rule"),
            ("allow = []", "there is no rule"),
            ("[[allow]]\nuser = 4294967295", "no user and no group"),
            ("[[allow]]\ngroup = 4294967295", "no user and no group"),
            ("[[allow]]\ngroup = \"@wheel\"", "no group `@wheel`"),
            ("[[allow]]\nnames = [\"a*b\"]", "`*` in"),
            ("[[allow]]\nnames = [\"**\"]", "`*` in"),
            ("[[allow]]\nnames = [\"a?\"]", "`?` in"),
            ("[[allow]]\nnames = [\"worker-[0-9]*\"]", "`[` in"),
            ("[[allow]]\nnames = [\"^a\"]", "`^` in"),
            ("[[allow]]\nnames = [\"a, b\"]", "`,` in"),
            ("[[allow]]\nnames = [\"$USER-*\"]", "`$` in"),
            ("[[allow]]\nnames = [\" a\"]", "a space at an end"),
        ] {
            let error = Access::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
