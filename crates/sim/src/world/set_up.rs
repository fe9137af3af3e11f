//! The beginning: a node, a cast, and all that will happen by itself.

use restante_core::endpoint::{EndpointId, Receiver as Setting, Source as SourceSetting};
use restante_core::id::{Id, Tail};
use restante_store::record::{Draft, Kind, Workspace};
use restante_store::{Created, Grant};

use super::job::json;
use super::node::Node;
use super::{Event, World};
use crate::cast::{Endpoint, Owner, Source, draw_destination, draw_webhook};
use crate::in_force::InForce;
use crate::plant::Plant;
use crate::random::Random;
use crate::story::outbound::Taken;
use crate::timeline::Moment;

/// Two hurries on a day are more than a workspace may have.
const REPLAYS_IN_A_HURRY: u64 = 12;

impl World {
    pub(super) fn set_up(&mut self) {
        self.node = Some(Node::open(self.directory.path(), self.plan.in_flight_max, self.plan.policy));
        let mut random = Random::keyed(&[self.seed, 7]);
        for number in 0..self.plan.workspaces {
            self.make_workspace(number, &mut random);
        }
        for number in 0..self.plan.sources {
            self.make_source(number, &mut random);
        }
        for number in 0..self.plan.destinations {
            self.make_destination(number, &mut random);
        }
        for number in 0..self.plan.webhooks {
            self.make_webhook(number, &mut random);
        }
        if let Some(node) = &mut self.node {
            node.attach();
        }
        let mut publishes = self.plan_publishes();
        publishes.extend(self.plan_calls());
        let mut random = Random::keyed(&[self.seed, 8]);
        let plan = self.plan.clone();
        let counts = [plan.people, plan.keepers, plan.crashes, plan.stops, plan.jumps];
        let kinds: [fn() -> Event; 5] =
            [|| Event::Act, || Event::Keep, || Event::Crash, || Event::Stop, || Event::Jump];
        for (count, kind) in counts.into_iter().zip(kinds) {
            for at in plan.times(&mut random, count, &publishes) {
                self.timeline.plan(at, kind());
            }
        }
        let mut random_clients = Random::keyed(&[self.seed, 13]);
        for at in plan.times(&mut random_clients, plan.clients, &publishes) {
            self.timeline.plan(at, Event::Client);
        }
        for _ in 0..plan.hurry {
            let hurry = Moment(random.below(plan.busy_ms));
            for number in 0..REPLAYS_IN_A_HURRY {
                self.timeline.plan(hurry.after(number * random.below(20)), Event::Hurry);
            }
        }
        self.timeline.plan(Moment(plan.busy_ms), Event::Heal);
        self.claim_now();
        self.prune();
    }

    fn make(&mut self, draft: &Draft) -> u128 {
        let now = self.wall();
        let node = self.node.as_mut().expect("the first node is there");
        let created = node.engine.transaction(|engine| engine.create(draft, now)).expect("creation works");
        match created {
            Created::Done(raw) => raw.uuid,
            other @ (Created::NameTaken | Created::ParentGone | Created::TooMany) => panic!("{other:?}"),
        }
    }

    fn make_workspace(&mut self, number: usize, random: &mut Random) {
        let body = json(&Workspace::new(format!("w{number}"), Vec::new()));
        let tail = Tail::from_bits(random.draw());
        let id = self.make(&Draft {
            kind: Kind::Workspace,
            workspace: None,
            parent: None,
            name: None,
            lookup: None,
            body,
            tail,
        });
        self.cast.workspaces.push(Id::from_uuid(id));
        if !self.plan.calm && random.chance(15) {
            let (workspace, now) = (Id::from_uuid(id), self.wall());
            let grant = Grant::Delta(random.between(5..=40).cast_signed());
            let node = self.node.as_mut().expect("the first node is there");
            let granted =
                node.engine.transaction(|engine| engine.grant(workspace, grant, String::new(), now));
            granted.expect("grants work");
        }
    }

    fn make_source(&mut self, number: usize, random: &mut Random) {
        let workspace = number % self.cast.workspaces.len();
        let takes_pending = !self.plan.tunnels || Random::keyed(&[self.seed, 12, number as u64]).chance(50);
        let setting = SourceSetting {
            name: format!("s{number}"),
            token: format!("tok_{:016x}", random.draw()),
            response: None,
            deliver_pending_on_connect: takes_pending || self.plant == Some(Plant::PendingAlways),
            retention_days: random.pick(&[1, 30, 365, 365]),
            dedupe: None,
            verification: None,
        };
        let id = self.make(&Draft {
            kind: Kind::Source,
            workspace: Some(self.cast.workspaces[workspace]),
            parent: None,
            name: Some(setting.name.clone()),
            lookup: Some(setting.token.clone()),
            body: json(&setting),
            tail: Tail::from_bits(random.draw()),
        });
        self.cast.sources.push(Source {
            workspace,
            id: Id::from_uuid(id),
            token: setting.token,
            retention_days: setting.retention_days,
            deletion_asked: None,
            takes_pending: InForce::since(self.clocks.now, takes_pending),
            clients: Vec::new(),
            listening: InForce::since(self.clocks.now, None),
        });
    }

    fn make_destination(&mut self, number: usize, random: &mut Random) {
        let source = number % self.cast.sources.len();
        let mut setting = draw_destination(random, number, number, self.plan.calm);
        self.draw_tunnel(number, &mut setting);
        let id = self.make(&Draft {
            kind: Kind::Destination,
            workspace: Some(self.cast.workspace_of_source(source)),
            parent: Some(self.cast.sources[source].id.uuid()),
            name: None,
            lookup: None,
            body: json(&setting),
            tail: Tail::from_bits(random.draw()),
        });
        self.cast.endpoints.push(Endpoint {
            owner: Owner::Source(source),
            id: Some(EndpointId::Destination(Id::from_uuid(id))),
            setting: InForce::since(self.clocks.now, Some(Setting::Destination(setting))),
        });
    }

    fn make_webhook(&mut self, number: usize, random: &mut Random) {
        let workspace = number % self.cast.workspaces.len();
        let place = self.cast.endpoints.len();
        let setting = draw_webhook(random, place, place, self.plan.calm);
        let paused = setting.paused;
        let id = self.make(&Draft {
            kind: Kind::Webhook,
            workspace: Some(self.cast.workspaces[workspace]),
            parent: None,
            name: None,
            lookup: None,
            body: json(&setting),
            tail: Tail::from_bits(random.draw()),
        });
        self.cast.endpoints.push(Endpoint {
            owner: Owner::Workspace(workspace),
            id: Some(EndpointId::Webhook(Id::from_uuid(id))),
            setting: InForce::since(self.clocks.now, Some(Setting::Webhook(setting))),
        });
        self.take(Taken::Change { endpoint: place, new_url: false, paused });
    }
}
