//! The far side: carries out one plan after the other.

use crate::error::Error;
use crate::measure::far;
use crate::plan::{Answer, Plan, SideInfo, VERSION};
use crate::session::Link;
use crate::watch::Watch;

/// The far side's answer to a plan; `here` describes the far side.
pub(crate) fn answer(plan: &Plan, here: Result<SideInfo, Error>) -> Answer {
    if plan.version != VERSION {
        return Answer::Refused(format!(
            "it has version {VERSION} of am-bench's plans, and this side {}: run the same build on both",
            plan.version
        ));
    }
    if plan.drivers.is_empty() {
        return Answer::Refused("the plan names no driver".to_owned());
    }
    match here {
        Ok(here) if plan.drivers.iter().any(|driver| driver.is_kernel()) && here.ip_towards(&plan.near).is_none() => {
            Answer::NoIp(here.why_no_ip(&plan.near))
        }
        Ok(here) => Answer::Accepted(here),
        Err(error) => Answer::Refused(error.to_string()),
    }
}

/// Open each driver in turn, and serve it.
///
/// # Errors
/// The near side left early or is lost, or a driver cannot be opened.
pub(crate) fn follow(plan: &Plan, link: &mut dyn Link, watch: &Watch) -> Result<(), Error> {
    for (_, driver) in plan.stages() {
        let mut channel = link.open(driver, &plan.near, plan.how, watch)?;
        far::serve(channel.as_mut(), driver, link.timeouts(), watch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::plan::DriverOptions;

    fn place(ipv4: Option<[u8; 4]>) -> SideInfo {
        SideInfo { name: "beta".to_owned(), address: [2; 6], ipv4: ipv4.map(Into::into), ..SideInfo::default() }
    }

    fn plan(drivers: &[Driver]) -> Plan {
        let near = place(Some([10, 0, 0, 1]));
        Plan { version: VERSION, near, how: DriverOptions::default(), drivers: drivers.to_vec(), rounds: 1 }
    }

    #[test]
    fn what_can_be_followed_is_accepted() {
        let here = place(Some([10, 0, 0, 2]));
        assert_eq!(answer(&plan(&[Driver::Am, Driver::Udp]), Ok(here.clone())), Answer::Accepted(here));
        assert_eq!(answer(&plan(&[Driver::Am, Driver::Raw]), Ok(place(None))), Answer::Accepted(place(None)));
    }

    #[test]
    fn what_cannot_is_refused_with_the_reason() {
        let refused = |plan: &Plan, here| match answer(plan, Ok(here)) {
            Answer::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer(&plan(&[Driver::Udp]), Ok(place(None))), Answer::NoIp(String::new()));
        assert!(refused(&plan(&[]), place(None)).contains("names no driver"));
        let older = Plan { version: 0, ..plan(&[Driver::Am]) };
        assert!(refused(&older, place(None)).contains("run the same build"));
        let first =
            r#"{"version":1,"near":{"name":"a","address":[2,0,0,0,0,1]},"framing":"auto","vias":[],"rounds":1}"#;
        assert!(refused(&serde_json::from_str(first).unwrap(), place(None)).contains("version 7"));
    }
}
