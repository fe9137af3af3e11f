//! What stands on top of each command's help: lines to try.

use clap::Command;

/// Commands and lines of them, in the order they are shown. Each line but the first ones is parsed by a test.
const EXAMPLES: &[(&str, &str)] = &[
    ("", "restante                      serve on 127.0.0.1:8420, data in ./restante-data"),
    ("", "restante serve --dev          also deliver to http and private addresses"),
    ("", "restante tour                 see in half a minute what it does"),
    ("", "restante migrate --from sqlite:./restante-data --to postgres://host/database   move to PostgreSQL"),
    ("", "restante backup daily.db      copy all that is in ./restante-data, also while it is served"),
    ("", "restante doctor               look at settings, server, key and clock"),
    ("", "restante listen 3000          bring what a source receives to a port of this machine"),
    ("", "restante requests tail        follow what comes in"),
    ("serve", "restante serve --dev"),
    ("serve", "restante serve --listen 0.0.0.0:8420 --public-url https://hooks.example.com"),
    ("tour", "restante tour"),
    ("migrate", "restante migrate --from sqlite:./restante-data --to postgres://user@host/database"),
    ("backup", "restante backup /backups/restante.db --force"),
    ("backup", "restante backup restante.db --data /var/lib/restante --with-secret-key"),
    ("restore", "restante restore restante.db --data ./restored"),
    ("listen", "restante listen 3000 --source shop --create"),
    ("listen", "restante listen https://localhost:8443/hooks --source shop --source stripe"),
    ("listen", "restante listen 3000 --source shop --json"),
    ("sources", "restante sources create shop"),
    ("sources", "restante sources get shop --json"),
    ("sources list", "restante sources list --all"),
    ("sources get", "restante sources get shop"),
    ("sources create", "restante sources create shop --retention-days 90"),
    ("sources create", "restante sources create slack --response-status 200 --response-body ok"),
    ("sources update", "restante sources update shop --name store"),
    ("sources update", "restante sources update shop --reset retention-days"),
    ("sources delete", "restante sources delete shop --yes"),
    ("sources rotate-token", "restante sources rotate-token shop"),
    ("destinations", "restante destinations create --source shop --url https://api.example.com/hooks"),
    ("destinations", "restante destinations list --source shop"),
    ("destinations list", "restante destinations list --source shop"),
    ("destinations get", "restante destinations get dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop"),
    (
        "destinations create",
        "restante destinations create --source shop --url https://api.example.com/hooks --attempts 8",
    ),
    ("destinations create", "restante destinations create --source shop --url http://localhost:3000 --cli"),
    (
        "destinations update",
        "restante destinations update dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop --schedule 5,300,1800",
    ),
    ("destinations delete", "restante destinations delete dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop"),
    ("destinations pause", "restante destinations pause dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop"),
    ("destinations resume", "restante destinations resume dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop"),
    (
        "destinations retry",
        "restante destinations retry dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop --since 2h --dry-run",
    ),
    ("destinations retries", "restante destinations retries dst_01jdx3s0mze5tr5yk9v1qx7b2h --source shop"),
    ("requests", "restante requests list --source shop --state failed"),
    ("requests", "restante requests tail"),
    ("requests list", "restante requests list --source shop --since 2h --state failed"),
    ("requests list", "restante requests list --text inv_4192 --json"),
    ("requests get", "restante requests get req_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("requests body", "restante requests body req_01jdx3s0mze5tr5yk9v1qx7b2h --output body.json"),
    ("requests tail", "restante requests tail --source shop"),
    ("requests replay", "restante requests replay req_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("requests delete", "restante requests delete req_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("deliveries", "restante deliveries list --state pending"),
    ("deliveries", "restante deliveries get dlv_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("deliveries list", "restante deliveries list --source shop --state failed --since 1d"),
    ("deliveries get", "restante deliveries get dlv_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("deliveries attempts", "restante deliveries attempts dlv_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("deliveries cancel", "restante deliveries cancel dlv_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("deliveries retry", "restante deliveries retry dlv_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks", "restante webhooks create https://customer.example.com/hooks --event order.paid"),
    ("webhooks", "restante webhooks test whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks list", "restante webhooks list --url https://customer.example.com/hooks"),
    ("webhooks get", "restante webhooks get whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    (
        "webhooks create",
        "restante webhooks create https://customer.example.com/hooks --event order.paid --event 'invoice.*'",
    ),
    (
        "webhooks update",
        "restante webhooks update whk_01jdx3s0mze5tr5yk9v1qx7b2h --url https://new.example.com/hooks",
    ),
    ("webhooks delete", "restante webhooks delete whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks pause", "restante webhooks pause whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks resume", "restante webhooks resume whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks rotate-secret", "restante webhooks rotate-secret whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks test", "restante webhooks test whk_01jdx3s0mze5tr5yk9v1qx7b2h --event-type order.paid"),
    ("webhooks attempts", "restante webhooks attempts whk_01jdx3s0mze5tr5yk9v1qx7b2h --status failed"),
    ("webhooks deliveries", "restante webhooks deliveries whk_01jdx3s0mze5tr5yk9v1qx7b2h --state failed"),
    ("webhooks replay", "restante webhooks replay whk_01jdx3s0mze5tr5yk9v1qx7b2h --since 6h --dry-run"),
    ("webhooks replays", "restante webhooks replays whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("webhooks recover", "restante webhooks recover whk_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("events", "restante events publish order.paid --data '{\"order\":4192}'"),
    ("events", "restante events list --type order.paid"),
    ("events list", "restante events list --type order.paid --since 1d"),
    ("events get", "restante events get whe_01jdx3s0mze5tr5yk9v1qx7b2h"),
    (
        "events publish",
        "restante events publish order.paid --data @order.json --idempotency-key order-paid:4192",
    ),
    ("emails", "restante emails list --status bounced,failed"),
    ("emails", "restante emails get em_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("emails list", "restante emails list --status bounced,failed"),
    ("emails get", "restante emails get em_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("emails events", "restante emails events em_01jdx3s0mze5tr5yk9v1qx7b2h"),
    (
        "emails send",
        "restante emails send --from shop@example.com --to ada@example.net --subject Hello --text 'It is on its way.'",
    ),
    ("emails cancel", "restante emails cancel em_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("emails reschedule", "restante emails reschedule em_01jdx3s0mze5tr5yk9v1qx7b2h 2h"),
    ("templates", "restante templates list"),
    ("templates", "restante templates preview welcome --props '{\"name\":\"Ada\"}'"),
    ("templates list", "restante templates list"),
    ("templates get", "restante templates get welcome"),
    ("templates preview", "restante templates preview welcome --props '{\"name\":\"Ada\"}' --part html"),
    ("domains", "restante domains create example.com"),
    ("domains list", "restante domains list"),
    ("domains get", "restante domains get dom_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("domains create", "restante domains create example.com"),
    ("domains verify", "restante domains verify dom_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("domains delete", "restante domains delete dom_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("suppressions", "restante suppressions add ada@example.net"),
    ("suppressions list", "restante suppressions list --all --json"),
    ("suppressions add", "restante suppressions add ada@example.net"),
    ("suppressions delete", "restante suppressions delete sup_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("notices", "restante notices list"),
    ("notices list", "restante notices list"),
    ("keys", "restante keys create worker --scope events:publish"),
    ("keys list", "restante keys list"),
    ("keys get", "restante keys get key_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("keys create", "restante keys create worker --scope events:publish,emails:send --mode test"),
    ("keys rotate", "restante keys rotate key_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("keys revoke", "restante keys revoke key_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("keys delete", "restante keys delete key_01jdx3s0mze5tr5yk9v1qx7b2h"),
    ("credits", "restante credits --limit 100"),
    ("workspace", "restante workspace get"),
    ("workspace get", "restante workspace get"),
    ("workspace update", "restante workspace update --owner ops@example.com"),
    ("send", "restante send request shop --data '{\"order\":4192}'"),
    ("send", "restante send event order.paid --data @order.json"),
    ("send", "restante send email --from shop@example.com --to ada@example.net --subject Hello --text Hello"),
    ("send request", "restante send request shop --data @order.json -H 'X-Order: 4192'"),
    ("send request", "restante send request shop --method PUT --path /orders/4192"),
    (
        "send event",
        "restante send event order.paid --data '{\"order\":4192}' --idempotency-key order-paid:4192",
    ),
    (
        "send email",
        "restante send email --from shop@example.com --to ada@example.net --subject Invoice --html @invoice.html --file invoice.pdf",
    ),
    (
        "send email",
        "restante send email --from shop@example.com --to ada@example.net --template welcome --props '{\"name\":\"Ada\"}'",
    ),
    ("trigger", "restante trigger --list"),
    ("trigger", "restante trigger github push --source shop"),
    (
        "trigger",
        "restante trigger stripe invoice.paid --url http://localhost:3000/webhook --secret whsec_mine",
    ),
    ("doctor", "restante doctor"),
    ("doctor", "restante doctor --profile prod --json"),
    ("profiles", "restante profiles set prod --url https://restante.example.com --api-key -"),
    ("profiles list", "restante profiles list"),
    ("profiles use", "restante profiles use prod"),
    ("profiles set", "restante profiles set prod --url https://restante.example.com --api-key @key.txt"),
    ("profiles remove", "restante profiles remove prod"),
    ("completions", "restante completions bash"),
];

/// The same command with its examples, and so its subcommands.
pub(crate) fn on_top(command: Command) -> Command {
    with_examples(command, "")
}

fn with_examples(command: Command, path: &str) -> Command {
    let lines = EXAMPLES.iter().filter(|(of, _)| *of == path).map(|(_, line)| format!("\n  {line}"));
    let lines: String = lines.collect();
    let command = if lines.is_empty() { command } else { command.before_help(format!("Examples:{lines}")) };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_examples(below, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Args;

    /// The commands that are shown, by their paths.
    fn paths(command: &Command, path: &str) -> Vec<String> {
        let mut found = vec![path.to_owned()];
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            found.extend(paths(below, format!("{path} {}", below.get_name()).trim_start()));
        }
        found
    }

    /// As a shell splits them; quotes are single.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for (index, part) in line.split('\'').enumerate() {
            let pieces: Vec<&str> = if index % 2 == 0 { part.split(' ').collect() } else { vec![part] };
            for (number, piece) in pieces.into_iter().enumerate() {
                if number > 0 {
                    words.push(String::new());
                }
                words.last_mut().unwrap().push_str(piece);
            }
        }
        words
    }

    #[test]
    fn every_command_has_an_example_and_every_example_is_one() {
        let command = Args::command();
        command.clone().debug_assert();
        let paths = paths(&command, "");
        for path in &paths {
            assert!(EXAMPLES.iter().any(|(of, _)| of == path), "`{path}` has no example");
        }
        for (path, line) in EXAMPLES {
            assert!(paths.iter().any(|known| known == path), "`{path}` is no command");
            let line = line.split("   ").next().unwrap();
            let parsed = Args::try_parse_from(words(line.trim_end()));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            assert!(
                line.starts_with(&format!("restante {path}").trim_end().to_owned()),
                "{line} is not of `{path}`"
            );
        }
    }

    #[test]
    fn help_begins_with_the_examples() {
        let mut command = on_top(Args::command());
        let help = command.render_help().to_string();
        assert!(help.starts_with("Examples:\n  restante     "), "{help}");
        let sources = command.find_subcommand_mut("sources").unwrap();
        let list = sources.find_subcommand_mut("list").unwrap().render_help().to_string();
        assert!(list.starts_with("Examples:\n  restante sources list --all\n"), "{list}");
    }
}
