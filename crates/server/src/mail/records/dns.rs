//! Looking up through the machine's name servers.

use async_trait::async_trait;
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::ProtoErrorKind;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::{ResolveError, TokioResolver};

use super::{Lookup, LookupFault};

/// The name servers of the machine's own configuration, asked anew every time: who has just set a record wants to see
/// it.
///
/// Its sockets belong to the runtime it is used on.
pub struct SystemLookup(TokioResolver);

impl SystemLookup {
    /// Reads the machine's configuration.
    ///
    /// # Errors
    /// `LookupFault` when it cannot be read.
    pub fn new() -> Result<Self, LookupFault> {
        let read = hickory_resolver::system_conf::read_system_conf();
        let (config, options) = read.map_err(|error| LookupFault(error.to_string()))?;
        Ok(Self::with(config, options))
    }

    fn with(config: ResolverConfig, mut options: ResolverOpts) -> Self {
        options.cache_size = 0;
        let builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
        Self(builder.with_options(options).build())
    }
}

#[async_trait]
impl Lookup for SystemLookup {
    async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault> {
        // The dot keeps the machine's search list out.
        match self.0.txt_lookup(format!("{name}.")).await {
            Ok(found) => Ok(found.iter().map(|record| joined(record.txt_data())).collect()),
            Err(error) if is_answer(&error) => Ok(Vec::new()),
            Err(error) => Err(LookupFault(error.to_string())),
        }
    }
}

/// Whether a name server has said that there is no such record or name. To the resolver a server that fails or
/// refuses has no records either.
fn is_answer(error: &ResolveError) -> bool {
    let Some(ProtoErrorKind::NoRecordsFound { response_code, .. }) = error.proto().map(|it| it.kind()) else {
        return false;
    };
    [ResponseCode::NoError, ResponseCode::NXDomain].contains(response_code)
}

fn joined(strings: &[Box<[u8]>]) -> String {
    String::from_utf8_lossy(&strings.concat()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use hickory_resolver::config::NameServerConfigGroup;
    use hickory_resolver::proto::op::{Message, MessageType};
    use hickory_resolver::proto::rr::rdata::TXT;
    use hickory_resolver::proto::rr::{RData, Record};
    use tokio::net::UdpSocket;

    use super::*;

    /// A name server that knows three names.
    async fn serve(socket: UdpSocket) {
        let mut buffer = [0; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let name = question.queries()[0].name().clone();
            let mut answer = Message::new();
            answer.set_id(question.id()).set_message_type(MessageType::Response);
            answer.add_queries(question.queries().to_vec());
            match name.to_ascii().as_str() {
                "set.example." => {
                    for strings in [vec!["v=DKIM1; ", "p=abc"], vec!["other"]] {
                        let data = TXT::new(strings.into_iter().map(str::to_owned).collect());
                        answer.add_answer(Record::from_rdata(name.clone(), 300, RData::TXT(data)));
                    }
                }
                "empty.example." => {}
                "broken.example." => {
                    answer.set_response_code(ResponseCode::ServFail);
                }
                _ => {
                    answer.set_response_code(ResponseCode::NXDomain);
                }
            }
            socket.send_to(&answer.to_vec().unwrap(), peer).await.unwrap();
        }
    }

    #[tokio::test]
    async fn no_record_is_an_answer_and_no_answer_is_a_fault() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let server = tokio::spawn(serve(socket));
        let servers = NameServerConfigGroup::from_ips_clear(&[IpAddr::V4(Ipv4Addr::LOCALHOST)], port, true);
        let mut options = ResolverOpts::default();
        options.timeout = Duration::from_secs(5);
        options.attempts = 1;
        let lookup = SystemLookup::with(ResolverConfig::from_parts(None, vec![], servers), options);

        assert_eq!(lookup.txt("set.example").await.unwrap(), ["v=DKIM1; p=abc", "other"]);
        assert_eq!(lookup.txt("empty.example").await, Ok(vec![]));
        assert_eq!(lookup.txt("unknown.example").await, Ok(vec![]));
        assert!(lookup.txt("broken.example").await.is_err());
        server.abort();
    }
}
