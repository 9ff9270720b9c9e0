//! The content of a long message arrives while the next view is fetched.

use std::time::Duration;

use am_ordered_core::{
    Content, Core, Epoch, Level, Long, Member, MemberId, Message, NewView, Output, Settings, Stamped, State, View,
};
use bytes::Bytes;

const NOW: Duration = Duration::from_secs(1);

fn view(epoch: u32, sequencer: u64) -> View {
    let members = (0..3).map(|id| Member { id: MemberId(id), name: format!("m{id}"), link: 0 });
    View { group: 1, epoch: Epoch(epoch), members: members.collect(), sequencer: MemberId(sequencer), tie_break: None }
}

/// Member 2 of a view.
fn member() -> Core {
    let mut core =
        Core::join(Member { id: MemberId(2), name: "m2".into(), link: 0 }, Settings::default(), Duration::ZERO);
    let history = vec![(Epoch(1), 0)];
    let state = State { view: view(1, 0), history, number: 0, state: Some(Bytes::new()) };
    arrives(&mut core, 0, Message::State(state));
    core
}

/// A message arrives. Returns those that are sent then.
fn arrives(core: &mut Core, from: u64, message: Message) -> Vec<Message> {
    core.on_message(NOW, MemberId(from), message);
    let outputs = std::iter::from_fn(|| core.poll());
    let sent = |output| match output {
        Output::Send { message, .. } => Some(message),
        _ => None,
    };
    outputs.filter_map(sent).collect()
}

/// A message of the sequencer gets this number. Its content has this id.
fn stamped(number: u64, id: u64) -> Message {
    let (epoch, seq, level, content) =
        (Epoch(1), number as u32, Level::Agreed, Content::Apart(Long { id, length: 100 }));
    Message::Stamped(Stamped { epoch, number, sender: 0, seq, limit: 9, level, content })
}

fn data(id: u64) -> Message {
    Message::Data { sender: MemberId(0), id, payload: Bytes::from_static(b"long") }
}

/// The next view, whose log begins behind this many messages.
fn new_view(base: u64) -> Message {
    let history = vec![(Epoch(1), 0), (Epoch(2), base)];
    Message::NewView(NewView { view: view(2, 1), chain: vec![view(1, 0)], history })
}

#[test]
fn a_content_that_the_next_view_lacks_installs_it() {
    let mut core = member();
    arrives(&mut core, 0, stamped(0, 7));
    arrives(&mut core, 1, new_view(1));
    let sent = arrives(&mut core, 0, data(7));
    assert!(sent.contains(&Message::Installed { epoch: Epoch(2) }), "{sent:?}");
}

#[test]
fn a_message_is_repaired_without_its_content_which_is_asked_for_by_name() {
    let (mut holds, mut lacks) = (member(), member());
    arrives(&mut holds, 0, data(7));
    arrives(&mut holds, 0, stamped(0, 7));
    let repaired = arrives(&mut holds, 1, Message::Repair { epoch: Epoch(1), from: 0, to: 1 });
    let [Message::Repaired { entries, .. }] = &repaired[..] else { panic!("{repaired:?}") };
    assert!(entries[0].payload.is_empty() && entries[0].long.is_some());
    // The content may be on its way: it is not asked for at once.
    assert_eq!(arrives(&mut lacks, 1, repaired[0].clone()), []);
    lacks.on_time(NOW + Duration::from_millis(50));
    let asked = std::iter::from_fn(|| lacks.poll()).find_map(|output| match output {
        Output::Send { message: message @ Message::NeedData { .. }, .. } => Some(message),
        _ => None,
    });
    let answer = arrives(&mut holds, 1, asked.expect("it asks"));
    assert_eq!(answer, [data(7)]);
    lacks.on_message(NOW, MemberId(1), data(7));
    let delivered = std::iter::from_fn(|| lacks.poll()).any(|output| matches!(output, Output::Deliver(_)));
    assert!(delivered);
}

/// A busy network gets a second copy late. A member that has none costs little time.
#[test]
fn the_sender_of_a_content_is_asked_first_and_soon_again() {
    let mut core = member();
    let Message::Stamped(stamped) = stamped(0, 7) else { panic!("it is stamped") };
    let content = Content::Apart(Long { id: 7, length: 4 << 20 });
    arrives(&mut core, 0, Message::Stamped(Stamped { sender: 1, content, ..stamped }));
    let (mut now, mut asked) = (NOW, vec![]);
    while asked.len() < 4 {
        now += Duration::from_millis(10);
        core.on_time(now);
        let outputs = std::iter::from_fn(|| core.poll());
        asked.extend(outputs.filter_map(|output| match output {
            Output::Send { to, message: Message::NeedData { .. } } => Some((to.0, now - NOW)),
            _ => None,
        }));
        assert!(now < NOW + Duration::from_secs(20), "{asked:?}");
    }
    let order: Vec<u64> = asked.iter().map(|(to, _)| *to).collect();
    assert_eq!(order, [1, 0, 1, 0], "{asked:?}");
    assert!(asked[2].1 < Duration::from_secs(2), "{asked:?}");
}

#[test]
fn another_members_content_is_taken_only_if_it_is_awaited() {
    let mut core = member();
    arrives(&mut core, 1, data(7));
    arrives(&mut core, 0, stamped(0, 7));
    assert_eq!(core.delivered(), 0);
}

#[test]
fn a_content_whose_place_is_void_is_in_no_log() {
    let mut core = member();
    arrives(&mut core, 0, stamped(1, 7));
    arrives(&mut core, 1, new_view(1));
    // Its sender sends it again in the next epoch, where another message has this place.
    arrives(&mut core, 0, data(7));
    let sent = arrives(&mut core, 1, Message::Repair { epoch: Epoch(2), from: 1, to: 2 });
    assert_eq!(sent, [], "nothing has this number in the next view's log");
}

#[test]
fn the_content_of_a_void_place_is_not_waited_for() {
    let mut core = member();
    arrives(&mut core, 0, stamped(0, 7));
    // Between the two views one has decided otherwise, which this member does not have.
    let history = vec![(Epoch(1), 0), (Epoch(2), 0), (Epoch(3), 1)];
    let sent = arrives(&mut core, 1, Message::NewView(NewView { view: view(3, 1), chain: vec![view(2, 1)], history }));
    assert_eq!(sent, [Message::Repair { epoch: Epoch(3), from: 0, to: 1 }]);
}
