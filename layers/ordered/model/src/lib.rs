//! **A model of the change of views** of ordered multicast, for the model checker stateright. It looks at every order of events within
//! its bounds; the simulator looks at some orders of many events.
//!
//! ```text
//!   Group (bounds) ──start──▶ World ──possible──▶ Action ──after──▶ World ...     each World passes the checks
//!                               └─ Process: the core's own Ballot, with a log beside it
//! ```
//!
//! **Modelled.** Members hold [`Ballot`](am_ordered_core::Ballot), so a rule that is wrong there is wrong here. The rules of the log are
//! written again in [`process`]: where a new view cuts it, which members diverged, what a state takes the place of, what is fetched before a view
//! is installed. A message that was sent may arrive at any time, several times, or never. Members crash; join with a state, all that
//! are ready at once; are put out; become candidates at any time, several for one epoch. Messages are `Agreed` or `Safe`.
//!
//! **Not modelled.** Time: a lease never ends, and anybody may become a candidate. Hence a sequencer gives numbers as long as it has
//! heard of no other epoch, and two may at one time; what they send is checked. Credits, tokens, and memory that is freed. Messages
//! that are submitted again. A promise carries all ranges behind the first gap, a history all epochs.
//!
//! Read first: [`checks`], then [`Group::after`]. The tests leave out one rule after the other ([`Bug`]), and each is missed.
#![forbid(unsafe_code)]

pub mod bug;
pub mod checks;
pub mod group;
pub mod log;
pub mod process;
pub mod world;

use stateright::{Model, Property};

pub use bug::Bug;
pub use group::{Action, Group};
pub use world::{Left, World};

impl Model for Group {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        self.after(world, action)
    }

    fn properties(&self) -> Vec<Property<Group>> {
        vec![
            Property::always("a number has one safe message", |_, world| checks::safe_is_one(world)),
            Property::always("safe messages stay", |_, world| checks::safe_stays(world)),
            Property::always("an epoch has one view", |_, world| checks::epochs_are_one(world)),
            Property::always("there is one primary", |_, world| checks::primary_is_one(world)),
            Property::always("bases never decrease", |_, world| checks::bases_grow(world)),
            Property::always("there is one order", |_, world| checks::order_is_one(world)),
            Property::always("a majority goes on", |group, world| checks::goes_on(group.bug, world)),
            Property::sometimes("a joiner is a member", |_, world| checks::joins(world)),
            Property::sometimes("a member that diverged goes on", |_, world| checks::recovers(world)),
            Property::sometimes("a crash is survived", |_, world| checks::survives_crash(world)),
            Property::sometimes("a member diverges", |_, world| checks::diverges(world)),
            Property::sometimes("two candidates for an epoch", |_, world| checks::competes(world)),
            Property::sometimes("safe in a later epoch", |_, world| checks::delivers_later(world)),
        ]
    }
}
