//! A message's content as only the store makes it, for worlds that are not about bytes.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::id::{Id, Tail};
use restante_store::record::{Kind, Workspace};
use restante_store::{Content, Created, Incoming, Judgement, Policy};

use super::intake::draw_request;
use super::job::{draft, json};
use super::node::{Handed, Node, directory};
use crate::cast::draw_destination;
use crate::random::Random;

/// The content of a request that an engine of its own took in.
pub(crate) fn some_content() -> Arc<Content> {
    let (directory, mut random) = (directory(), Random::new(0));
    let mut node = Node::open(directory.path(), 1, Policy::default());
    node.attach();
    let (now, tail) = (Timestamp::from_millis(1_000_000), Tail::from_bits(1));
    let mut make = |draft: &_| {
        let created = node.engine.transaction(|engine| engine.create(draft, now)).expect("creation works");
        match created {
            Created::Done(raw) => raw.uuid,
            other @ (Created::NameTaken | Created::ParentGone | Created::TooMany) => panic!("{other:?}"),
        }
    };
    let mut workspace =
        draft(Kind::Workspace, Id::from_uuid(0), 0, json(&Workspace::new("w".into(), vec![])), tail);
    (workspace.workspace, workspace.parent) = (None, None);
    let workspace = Id::from_uuid(make(&workspace));
    let token = "tok_of_some_content".to_owned();
    let setting = restante_core::endpoint::Source {
        name: "s".into(),
        token: token.clone(),
        response: None,
        deliver_pending_on_connect: true,
        retention_days: 30,
        dedupe: None,
        verification: None,
    };
    let mut source = draft(Kind::Source, workspace, 0, json(&setting), tail);
    (source.parent, source.name, source.lookup) = (None, Some("s".into()), Some(token.clone()));
    let source = make(&source);
    make(&draft(
        Kind::Destination,
        workspace,
        source,
        json(&draw_destination(&mut random, 0, 0, true)),
        tail,
    ));
    let received = draw_request(&mut random, 0);
    let incoming = Incoming { token, received, judgement: Judgement::default(), now, tail };
    node.engine.transaction(|engine| engine.accept(incoming)).expect("an accept works");
    let parcels = node.outbox.take().into_iter().find_map(|handed| match handed {
        Handed::Parcels(parcels) => parcels.into_iter().next(),
        Handed::Withdraw(_) | Handed::Widen(_) => None,
    });
    parcels.expect("what is accepted is leased at birth").content
}
