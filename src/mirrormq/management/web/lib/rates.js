// How fast messages come and go, as the API tells it of a row. A node may be told to keep that to itself
// (`management.rates_mode = none`): then it is not nought but unknown.
import { NOTHING, rate, short } from "./format.js";
import { live } from "./live.js";

export const ratesShown = () => live.value.totals?.rates_mode !== "none";

const known = (number) => (ratesShown() ? number ?? 0 : undefined);

export const rateOf = (row, name) => rate(known(row.message_stats?.[`${name}_details`]?.rate));

export const shortRate = (number) => (ratesShown() ? short(number) : NOTHING);
