use super::Client;
use super::live::LiveStream;
use crate::resources::*;

/// Each resource, by both clients.
macro_rules! nouns {
    ($($noun:ident $resource:ident $doc:literal;)*) => {
        impl Client {
            $(
                #[doc = $doc]
                pub fn $noun(&self) -> $resource<Self> {
                    $resource::new(self.clone())
                }
            )*
        }

        impl crate::blocking::Client {
            $(
                #[doc = $doc]
                pub fn $noun(&self) -> $resource<Self> {
                    $resource::new(self.clone())
                }
            )*
        }
    };
}

nouns! {
    sources Sources "Permanent URLs that receive webhooks.";
    destinations Destinations "Receivers of sources.";
    requests Requests "What sources have received.";
    deliveries Deliveries "Messages on their way to endpoints.";
    events Events "What is published to webhooks.";
    emails Emails "What is sent to mailboxes.";
    templates Templates "Emails to be filled in.";
    domains Domains "Domains that mail comes from.";
    suppressions Suppressions "Mailboxes that get no mail.";
    webhooks Webhooks "Endpoints of customers.";
    notices Notices "What owners were told about webhooks.";
    stats Stats "What went through, how quickly, and what waits.";
    workspace Workspace "The workspace of the key.";
    workspaces Workspaces "All workspaces; for the scope `admin`.";
    keys Keys "Credentials.";
    stream LiveStream "What happens, as it happens.";
    system System "The server itself.";
}
