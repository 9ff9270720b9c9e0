//! The far side: carries out one plan after the other.

use crate::error::Error;
use crate::measure::far;
use crate::plan::{Answer, Place, Plan, VERSION};
use crate::session::Link;
use crate::watch::Watch;

/// The far side's answer to a plan; `here` describes the far side.
pub(crate) fn answer(plan: &Plan, here: Result<Place, Error>) -> Answer {
    if plan.version != VERSION {
        return Answer::Refused(format!(
            "it speaks version {VERSION} of am-bench's plans, and this side {}: run the same build on both",
            plan.version
        ));
    }
    if plan.vias.is_empty() {
        return Answer::Refused("its plan names nothing to measure by".to_owned());
    }
    match here {
        Ok(here) if plan.vias.iter().any(|via| via.is_kernel()) && here.ip_towards(&plan.near).is_none() => {
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
    for (_, via) in plan.stages() {
        let mut port = link.open(via, &plan.near, plan.how, watch)?;
        far::serve(port.as_mut(), via, link.patience(), watch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::How;
    use crate::via::Via;

    fn place(ipv4: Option<[u8; 4]>) -> Place {
        Place { name: "beta".to_owned(), address: [2; 6], ipv4: ipv4.map(Into::into), ..Place::default() }
    }

    fn plan(vias: &[Via]) -> Plan {
        let near = place(Some([10, 0, 0, 1]));
        Plan { version: VERSION, near, how: How::default(), vias: vias.to_vec(), rounds: 1 }
    }

    #[test]
    fn what_can_be_followed_is_accepted() {
        let here = place(Some([10, 0, 0, 2]));
        assert_eq!(answer(&plan(&[Via::Am, Via::Udp]), Ok(here.clone())), Answer::Accepted(here));
        assert_eq!(answer(&plan(&[Via::Am, Via::Raw]), Ok(place(None))), Answer::Accepted(place(None)));
    }

    #[test]
    fn what_cannot_is_refused_with_the_reason() {
        let refused = |plan: &Plan, here| match answer(plan, Ok(here)) {
            Answer::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer(&plan(&[Via::Udp]), Ok(place(None))), Answer::NoIp(String::new()));
        assert!(refused(&plan(&[]), place(None)).contains("nothing to measure by"));
        let older = Plan { version: 0, ..plan(&[Via::Am]) };
        assert!(refused(&older, place(None)).contains("run the same build"));
        let first =
            r#"{"version":1,"near":{"name":"a","address":[2,0,0,0,0,1]},"framing":"auto","vias":[],"rounds":1}"#;
        assert!(refused(&serde_json::from_str(first).unwrap(), place(None)).contains("version 7"));
    }
}
