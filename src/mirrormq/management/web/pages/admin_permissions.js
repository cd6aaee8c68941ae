// Permissions page: what users may configure, write and read in vhosts, and with which routing keys.
import { PermissionPanel, TopicPermissionPanel } from "../components/permission_tables.js";
import { html } from "../lib/html.js";

export function Permissions() {
  return html`<${PermissionPanel} /><${TopicPermissionPanel} />`;
}
