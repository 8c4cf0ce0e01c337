//! How do many objects get there?

use super::connection::Connection;
use super::explain::Failure;
use super::request;
use super::resource;
use futures_util::{StreamExt, stream};
use shoal_core::kubernetes::plan::Object;

/// Requests under way at once: the server is shared with everybody else's work.
const AT_ONCE: usize = 16;

/// What became of each object, in any order.
pub type Outcome<'o> = (&'o Object, Result<(), Failure>);

impl Connection {
    /// Asks the server to check objects without keeping them: what it would refuse is known before anything is there. The first refusal.
    pub fn check(&self, objects: &[&Object]) -> Option<Failure> {
        self.all(objects, true).into_iter().find_map(|(_, outcome)| outcome.err())
    }

    /// Applies all of them; one that is refused does not keep the others from it.
    pub fn apply<'o>(&self, objects: &[&'o Object]) -> Vec<Outcome<'o>> {
        self.all(objects, false)
    }

    fn all<'o>(&self, objects: &[&'o Object], try_only: bool) -> Vec<Outcome<'o>> {
        let one = |object: &&'o Object| {
            let object: &'o Object = object;
            let of = resource::of_kind(object.kind, &self.namespace);
            async move { (object, request::apply(self, &of, &object.manifest, try_only).await.map(drop)) }
        };
        let asking: Vec<_> = objects.iter().map(one).collect();
        self.block_on(stream::iter(asking).buffer_unordered(AT_ONCE).collect())
    }
}
