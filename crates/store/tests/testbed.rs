//! The test bed holds what the tests on it rely on.

#![expect(clippy::unwrap_used, reason = "tests")]

/// Needs a PostgreSQL.
mod on_postgres {
    use std::path::Path;
    use std::time::Duration;

    use restante_store::testbed::client::{Client, Error};
    use restante_store::testbed::{Cluster, Fault, Moment, Newcomers, Pair, Proxy, Side};

    /// Long enough for what must come.
    const SOON: Duration = Duration::from_secs(30);
    /// Long enough to see that nothing comes. Too short a time lets a test pass, never fail.
    const A_WHILE: Duration = Duration::from_millis(200);

    fn disk() -> &'static Path {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    }

    /// A database with an empty table, a proxy in front of it, a session through the proxy and one beside it.
    struct Rig {
        url: String,
        proxy: Proxy,
        client: Client,
        witness: Client,
        _cluster: Cluster,
    }

    impl Rig {
        async fn new() -> Self {
            let cluster = Cluster::shared(disk()).await;
            let database = cluster.database().await;
            let mut witness = Client::connect(&database).await.unwrap();
            witness.query("CREATE TABLE kept (number integer)").await.unwrap();
            let proxy = Proxy::start(cluster.address()).await;
            let url = proxy.url(&database);
            let client = Client::connect(&url).await.unwrap();
            assert_eq!(proxy.welcomed(), 1);
            Self { url, proxy, client, witness, _cluster: cluster }
        }

        async fn begin(&mut self) {
            self.client.query("BEGIN; INSERT INTO kept VALUES (1)").await.unwrap();
        }

        async fn is_kept(&mut self) -> bool {
            !self.witness.query("SELECT number FROM kept").await.unwrap().is_empty()
        }

        /// Waits until the server has so many sessions, the witness included.
        async fn until_sessions(&mut self, wanted: usize) {
            let sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()";
            let waiting = async {
                while self.witness.query(sql).await.unwrap().len() != wanted {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(SOON, waiting).await.unwrap();
        }
    }

    fn one() -> Vec<Vec<Option<String>>> {
        vec![vec![Some("1".to_owned())]]
    }

    async fn ask(client: &mut Client, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        tokio::time::timeout(SOON, client.query(sql)).await.unwrap()
    }

    /// No word of an answer comes.
    async fn is_lost(client: &mut Client, sql: &str) {
        assert!(matches!(ask(client, sql).await, Err(Error::Lost(_))));
        assert!(client.completed.is_empty());
    }

    async fn hears_nothing(client: &mut Client, sql: &str) {
        assert!(tokio::time::timeout(A_WHILE, client.query(sql)).await.is_err());
    }

    #[tokio::test]
    async fn a_server_writes_to_disk_before_it_acknowledges() {
        let cluster = Cluster::shared(disk()).await;
        let mut client = Client::connect(&cluster.database().await).await.unwrap();
        for (setting, value) in [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("max_connections", "200"),
            ("listen_addresses", "127.0.0.1"),
        ] {
            let said = client.query(&format!("SHOW {setting}")).await.unwrap();
            assert_eq!(said, [[Some(value.to_owned())]], "{setting}");
        }
        assert!((20_000..32_000).contains(&cluster.address().port()));
    }

    #[tokio::test]
    async fn users_share_a_server_and_each_has_its_database() {
        let (one, other) = (Cluster::shared(disk()).await, Cluster::shared(disk()).await);
        assert_eq!(one.address(), other.address());
        let (first, second) = (one.database().await, other.database().await);
        assert_ne!(first, second);
        let mut client = Client::connect(&first).await.unwrap();
        client.query("CREATE TABLE mine ()").await.unwrap();
        let mut client = Client::connect(&second).await.unwrap();
        let refused = client.query("SELECT FROM mine").await.unwrap_err();
        assert!(matches!(refused, Error::Refused { code, .. } if code == "42P01"));
        assert_eq!(client.query("SELECT NULL, 'x'; SELECT 1").await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_server_of_ones_own_leaves_nothing() {
        let cluster = Cluster::start(disk()).await;
        let mut client = Client::connect(&cluster.database().await).await.unwrap();
        let sql = "SELECT current_setting('data_directory')";
        let data = client.query(sql).await.unwrap().remove(0).remove(0).unwrap();
        let (home, address) = (Path::new(&data).parent().unwrap(), cluster.address());
        assert!(home.exists());
        drop(cluster);
        assert!(!home.exists());
        assert!(std::net::TcpStream::connect(address).is_err());
        is_lost(&mut client, "SELECT 1").await;
    }

    #[tokio::test]
    async fn what_a_pair_acknowledged_outlives_its_primary() {
        let pair = Pair::start(disk()).await;
        let url = pair.database().await;
        let mut client = Client::connect(&url).await.unwrap();
        client.query("CREATE TABLE kept (number integer)").await.unwrap();
        client.query("INSERT INTO kept VALUES (1)").await.unwrap();
        pair.kill_primary().await;
        is_lost(&mut client, "INSERT INTO kept VALUES (2)").await;
        // The standby is read-only, and may not have come to the creation of the database.
        let refused = Client::connect(&url).await.unwrap_err();
        assert!(
            matches!(refused, Error::Refused { code, .. } if ["25006", "3D000"].contains(&code.as_str()))
        );
        pair.promote().await;
        let mut client = Client::connect(&url).await.unwrap();
        assert_eq!(client.query("SELECT number FROM kept").await.unwrap(), one());
        client.query("INSERT INTO kept VALUES (3)").await.unwrap();
        Client::connect(&pair.database().await).await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_whose_answer_is_lost_has_happened() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        let struck = rig.proxy.lose_commit_answer();
        is_lost(&mut rig.client, "COMMIT").await;
        struck.happened().await;
        assert!(rig.is_kept().await);
    }

    #[tokio::test]
    async fn a_commit_that_is_lost_has_not_happened() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        let struck = rig.proxy.lose_commit();
        is_lost(&mut rig.client, "COMMIT").await;
        struck.happened().await;
        // The server has given up the session, and with it the transaction.
        rig.until_sessions(1).await;
        assert!(!rig.is_kept().await);
    }

    #[tokio::test]
    async fn a_link_cut_after_a_commit_passed_leaves_it_to_happen() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        let struck = rig.proxy.plan(1, |frame| frame.executes("COMMIT"), Moment::After, Fault::Cut);
        is_lost(&mut rig.client, "COMMIT").await;
        struck.happened().await;
        rig.until_sessions(1).await;
        assert!(rig.is_kept().await);
    }

    #[tokio::test]
    async fn a_planned_fault_counts_what_it_wants_on_all_connections() {
        let mut rig = Rig::new().await;
        let mut other = Client::connect(&rig.url).await.unwrap();
        let struck = rig.proxy.plan(3, |frame| frame.completes("SELECT"), Moment::Before, Fault::Cut);
        ask(&mut rig.client, "SELECT 1; INSERT INTO kept VALUES (1)").await.unwrap();
        ask(&mut other, "SELECT 1").await.unwrap();
        is_lost(&mut other, "SELECT 1").await;
        struck.happened().await;
        ask(&mut rig.client, "SELECT 1").await.unwrap();
    }

    #[tokio::test]
    async fn all_connections_are_cut_at_once() {
        let mut rig = Rig::new().await;
        let mut other = Client::connect(&rig.url).await.unwrap();
        rig.proxy.strike(Fault::Cut);
        is_lost(&mut rig.client, "SELECT 1").await;
        is_lost(&mut other, "SELECT 1").await;
        Client::connect(&rig.url).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_stalled_goes_on_when_let_go() {
        for from in [Side::Client, Side::Server] {
            let mut rig = Rig::new().await;
            let stalled = rig.proxy.stall(from);
            {
                let query = rig.client.query("INSERT INTO kept VALUES (1) RETURNING number");
                tokio::pin!(query);
                assert!(tokio::time::timeout(A_WHILE, &mut query).await.is_err());
                drop(stalled);
                assert_eq!(tokio::time::timeout(SOON, query).await.unwrap().unwrap(), one());
            }
            assert!(rig.is_kept().await);
        }
    }

    #[tokio::test]
    async fn a_stall_at_a_frame_ends_in_time_and_with_the_link_healed() {
        let mut rig = Rig::new().await;
        let answer = |frame: &restante_store::testbed::Frame| frame.completes("SELECT");
        let struck = rig.proxy.plan(1, answer, Moment::Before, Fault::Stall(A_WHILE));
        assert_eq!(ask(&mut rig.client, "SELECT 1").await.unwrap(), one());
        struck.happened().await;
        let struck = rig.proxy.plan(1, answer, Moment::Before, Fault::Stall(10 * SOON));
        let query = async { ask(&mut rig.client, "SELECT 1").await.unwrap() };
        let healing = async {
            struck.happened().await;
            rig.proxy.heal();
        };
        assert_eq!(tokio::join!(query, healing).0, one());
    }

    #[tokio::test]
    async fn a_blind_client_hears_nothing_and_its_session_ends() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        rig.proxy.strike(Fault::HalfOpen { blind: Side::Client });
        rig.until_sessions(1).await;
        hears_nothing(&mut rig.client, "COMMIT").await;
        assert!(!rig.is_kept().await);
        rig.proxy.heal();
        is_lost(&mut rig.client, "").await;
    }

    #[tokio::test]
    async fn a_blind_server_keeps_the_session_of_a_client_that_is_cut_off() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        rig.proxy.strike(Fault::HalfOpen { blind: Side::Server });
        is_lost(&mut rig.client, "COMMIT").await;
        rig.until_sessions(2).await;
        rig.proxy.heal();
        rig.until_sessions(1).await;
        assert!(!rig.is_kept().await);
    }

    #[tokio::test]
    async fn a_silent_link_shows_neither_side_that_the_other_went() {
        let mut rig = Rig::new().await;
        rig.begin().await;
        rig.proxy.strike(Fault::Silence);
        hears_nothing(&mut rig.client, "COMMIT").await;
        rig.client = Client::connect(&rig.url).await.unwrap();
        rig.until_sessions(3).await;
        rig.proxy.heal();
        rig.until_sessions(2).await;
        assert!(!rig.is_kept().await);
        ask(&mut rig.client, "SELECT 1").await.unwrap();
    }

    #[tokio::test]
    async fn newcomers_are_refused_or_ignored_until_the_link_is_healed() {
        let mut rig = Rig::new().await;
        rig.proxy.newcomers(Newcomers::Refused);
        let refused = tokio::time::timeout(SOON, Client::connect(&rig.url)).await.unwrap();
        assert!(matches!(refused, Err(Error::Lost(_))));
        rig.proxy.newcomers(Newcomers::Ignored);
        assert!(tokio::time::timeout(A_WHILE, Client::connect(&rig.url)).await.is_err());
        ask(&mut rig.client, "SELECT 1").await.unwrap();
        rig.proxy.heal();
        Client::connect(&rig.url).await.unwrap();
        assert_eq!(rig.proxy.welcomed(), 2);
    }

    /// Uses one connection until it is spoiled, in whichever way. Gives whether it was.
    async fn is_spoiled(url: &str) -> bool {
        let Ok(Ok(mut client)) = tokio::time::timeout(A_WHILE, Client::connect(url)).await else {
            return true;
        };
        for _ in 0..5_000 {
            if !matches!(tokio::time::timeout(A_WHILE, client.query("SELECT 1")).await, Ok(Ok(_))) {
                return true;
            }
        }
        false
    }

    #[tokio::test]
    async fn a_seed_spoils_every_connection_until_the_link_is_healed() {
        let mut rig = Rig::new().await;
        rig.proxy.chaos(1);
        is_lost(&mut rig.client, "SELECT 1").await;
        for _ in 0..5 {
            assert!(is_spoiled(&rig.url).await);
        }
        rig.proxy.heal();
        assert!(!is_spoiled(&rig.url).await);
    }
}
