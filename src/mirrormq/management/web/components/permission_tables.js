// Tables of permissions and topic permissions: all of them, those of one user, or those in one vhost.
import { control, path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { Panel, Refusal } from "./basics.js";
import { confirmed } from "./dialog.js";
import { Field, Folded, Form } from "./forms.js";
import { act } from "./notices.js";
import { Table } from "./table.js";
import { useChosenVhost, VhostField } from "./vhosts.js";

const RIGHTS = ["configure", "write", "read"];
const TOPIC_RIGHTS = ["write", "read"];

// Path of the rows: of a user, of a vhost, or all.
function whereOf(kind, { user, vhost }) {
  if (user !== undefined) return path("users", user, kind);
  return vhost !== undefined ? path("vhosts", vhost, kind) : kind;
}

function useRows(kind, of) {
  const chosen = useChosenVhost();
  const answer = useFetch(whereOf(kind, of));
  const rows = answer.data?.filter((row) => of.vhost !== undefined || !chosen || row.vhost === chosen);
  return { ...answer, rows };
}

function targetColumns({ user, vhost }) {
  return [
    user === undefined && { id: "user", label: t("common.user"), head: true, cell: (row) => html`<a class="name" href=${to("admin", "users", row.user)}>${row.user}</a>` },
    vhost === undefined && { id: "vhost", label: t("common.vhost"), head: user !== undefined, cell: (row) => html`<a class="name" href=${to("admin", "vhosts", row.vhost)}>${row.vhost}</a>` },
  ];
}

function TargetFields({ of }) {
  const users = useFetch("users", { columns: "name" }, { when: of.user === undefined });
  return html`${of.user === undefined && html`<${Field} label=${t("common.user")} name="user" options=${(users.data || []).map((each) => each.name)} />`}
    ${of.vhost === undefined && html`<${VhostField} />`}`;
}

const clearButton = (drop) => ({ id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => drop(row)}>${t("permission.clear")}</button>` });

export function PermissionPanel({ of = {} }) {
  const { rows, error, reload } = useRows("permissions", of);
  const save = async (given) => {
    const fields = { ...given, ...of };
    const body = Object.fromEntries(RIGHTS.map((right) => [right, fields[right]]));
    if (await act(put(path("permissions", fields.vhost, fields.user), body), t("permission.saved"))) reload();
  };
  const drop = async (row) => {
    if (!await confirmed(t("permission.clear"), t("permission.clearText", row), t("permission.clear"))) return;
    if (await act(remove(path("permissions", row.vhost, row.user)), t("permission.cleared"))) reload();
  };
  return html`<${Panel} id="permissions" title=${t("admin.permissions")} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${t("admin.permissions")} rows=${rows} keyOf=${(row) => JSON.stringify([row.vhost, row.user])} empty=${t("permission.none")} columns=${[
      ...targetColumns(of),
      ...RIGHTS.map((right) => ({ id: right, label: t(`permission.${right}`), cell: (row) => html`<code>${row[right]}</code>` })),
      clearButton(drop),
    ]} />
    <${Folded} title=${t("permission.set")}><${Form} label=${t("permission.set")} button=${t("common.save")} onSubmit=${save}>
      <${TargetFields} of=${of} />
      ${RIGHTS.map((right) => html`<${Field} key=${right} label=${t(`permission.${right}`)} name=${right} value=".*" hint=${t(`permission.${right}Hint`)} />`)}
    <//><//>
  <//>`;
}

export function TopicPermissionPanel({ of = {} }) {
  const { rows, error, reload } = useRows("topic-permissions", of);
  const save = async (given) => {
    const fields = { ...given, ...of };
    const body = { exchange: fields.exchange, write: fields.write, read: fields.read };
    const done = await act(put(path("topic-permissions", fields.vhost, fields.user), body), t("permission.saved"));
    if (done) reload();
    return Boolean(done);
  };
  // RabbitMQ's API clears the topic permissions of all exchanges; the control command clears those of one.
  const drop = async (row) => {
    if (!await confirmed(t("permission.clear"), t("permission.clearTopicText", row), t("permission.clear"))) return;
    const cleared = control("clear_topic_permissions", { words: [row.user, row.exchange], options: { vhost: row.vhost } });
    if (await act(cleared, t("permission.cleared"))) reload();
  };
  return html`<${Panel} id="topic-permissions" title=${t("permission.topic")} wide>
    <p class="soft">${t("permission.topicText")}</p>
    <${Refusal} error=${error} />
    <${Table} caption=${t("permission.topic")} rows=${rows} keyOf=${(row) => JSON.stringify([row.vhost, row.user, row.exchange])} empty=${t("permission.noneTopic")} columns=${[
      ...targetColumns(of),
      { id: "exchange", label: t("exchange.name"), cell: (row) => row.exchange },
      ...TOPIC_RIGHTS.map((right) => ({ id: right, label: t(`permission.${right}`), cell: (row) => html`<code>${row[right]}</code>` })),
      clearButton(drop),
    ]} />
    <${Folded} title=${t("permission.setTopic")}><${Form} label=${t("permission.setTopic")} button=${t("common.save")} onSubmit=${save}>
      <${TargetFields} of=${of} />
      <${Field} label=${t("exchange.name")} name="exchange" required value="amq.topic" />
      ${TOPIC_RIGHTS.map((right) => html`<${Field} key=${right} label=${t(`permission.${right}`)} name=${right} value=".*" hint=${t(`permission.${right}TopicHint`)} />`)}
    <//><//>
  <//>`;
}
