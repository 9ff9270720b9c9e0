//! The model within bounds, and with each rule left out.
//!
//! `AM_ORDERED_MODEL=MEMBERS,JOINERS,PROPOSALS,MESSAGES,CRASHES,REMOVALS` looks at a group within these bounds instead:
//! `AM_ORDERED_MODEL=3,0,2,2,1,0` takes an hour, and a few gigabytes.

use std::collections::BTreeSet;

use am_ordered_model::{Bug, Group, Left};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

/// Those that a checker has on the machines that run tests.
const THREADS: usize = 2;

/// Bounds in the order of the variable.
type Bounds = [u8; 6];

fn group([members, joiners, proposals, messages, crashes, removals]: Bounds) -> Group {
    let bounds = Left { proposals, messages, crashes, removals };
    Group { members: members.into(), joiners: joiners.into(), has_tie_break: false, bounds, bug: None }
}

/// Look at all moments, or until a property does not hold. Returns what was seen, and the property that does not hold, with what led there.
fn check(group: Group) -> (BTreeSet<&'static str>, Option<(&'static str, String)>) {
    println!("{group:?}");
    let properties = group.properties();
    let is_rule = |property: &&Property<Group>| matches!(property.expectation, Expectation::Always);
    let rules: BTreeSet<&str> = properties.iter().filter(is_rule).map(|property| property.name).collect();
    let checker = group.checker().threads(THREADS).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("    {} moments, {} of them different", checker.state_count(), checker.unique_state_count());
    let mut discoveries = checker.discoveries();
    let broken = rules.iter().find_map(|rule| Some((*rule, discoveries.remove(rule)?)));
    let broken = broken.map(|(rule, path)| {
        let actions = path.into_actions();
        (rule, actions.iter().map(|action| format!("\n    {action:?}")).collect())
    });
    (discoveries.into_keys().collect(), broken)
}

fn asked_for() -> Option<Group> {
    let bounds = std::env::var("AM_ORDERED_MODEL").ok()?;
    let bounds: Vec<u8> = bounds.split(',').map(|bound| bound.parse().expect("a number")).collect();
    Some(group(bounds.try_into().expect("six numbers")))
}

#[test]
fn the_rules_hold_within_bounds() {
    let with_tie_break = Group { has_tie_break: true, ..group([2, 0, 2, 1, 1, 0]) };
    let small = vec![group([3, 0, 1, 2, 1, 0]), group([2, 1, 2, 0, 1, 1]), group([1, 2, 2, 0, 1, 0]), with_tie_break];
    let asked_for = asked_for();
    let is_all = asked_for.is_none();
    let (mut seen, mut situations) = (BTreeSet::new(), BTreeSet::new());
    for group in asked_for.map_or(small, |group| vec![group]) {
        let properties = group.properties().into_iter();
        let situation = properties.filter(|property| matches!(property.expectation, Expectation::Sometimes));
        situations.extend(situation.map(|property| property.name));
        let (found, broken) = check(group);
        assert!(
            broken.is_none(),
            "it does not hold that: {}",
            broken.map(|(rule, path)| rule.to_owned() + &path).unwrap_or_default()
        );
        seen.extend(found);
    }
    assert!(!is_all || seen == situations, "never seen: {:?}", situations.difference(&seen));
}

/// Each rule is needed: without it another one does not hold.
#[test]
fn planted_bugs_are_caught() {
    let mut bugs: Vec<(Bug, Bounds, &str)> = vec![
        (Bug::Unsealed, [3, 0, 2, 1, 0, 0], "an epoch has one view"),
        (Bug::BeforeFetch, [3, 0, 2, 1, 0, 0], "bases never decrease"),
        (Bug::OwnIsLatest, [3, 0, 2, 1, 0, 0], "there is one primary"),
        (Bug::SafeAtOnce, [3, 0, 2, 1, 0, 0], "safe messages stay"),
        (Bug::KeptBeyondEnd, [3, 0, 1, 2, 0, 0], "there is one order"),
        (Bug::StaleEpoch, [3, 0, 1, 2, 0, 0], "there is one order"),
        (Bug::BeyondGap, [3, 0, 1, 2, 1, 0], "a majority goes on"),
        (Bug::GapForEver, [3, 0, 1, 2, 1, 0], "a majority goes on"),
        (Bug::AnyOfLatest, [1, 2, 2, 0, 1, 0], "a majority goes on"),
        (Bug::EndsEarly, [4, 0, 2, 0, 1, 1], "a majority goes on"),
    ];
    if asked_for().is_some() {
        bugs.extend([
            (Bug::DivergedIsMute, [2, 1, 2, 1, 1, 0], "a majority goes on"),
            (Bug::EarlierState, [2, 1, 3, 1, 0, 0], "an epoch has one view"),
            (Bug::CutEarly, [3, 0, 2, 2, 1, 0], "a majority goes on"),
            (Bug::LogForState, [3, 0, 2, 2, 1, 0], "safe messages stay"),
        ]);
    }
    for (bug, bounds, rule) in bugs {
        let (_, broken) = check(Group { bug: Some(bug), ..group(bounds) });
        let (broken, path) = broken.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: it does not hold that {broken}:{path}");
        assert_eq!(broken, rule, "{bug:?}");
    }
}
