// Message rates of a row of the API. With `management.rates_mode = none` a node does not report them: the rates are then
// unknown, not 0.
import { NOTHING, rate, short } from "./format.js";
import { live } from "./live.js";

export const ratesShown = () => live.value.totals?.rates_mode !== "none";

const known = (number) => (ratesShown() ? number ?? 0 : undefined);

export const rateOf = (row, name) => rate(known(row.message_stats?.[`${name}_details`]?.rate));

export const shortRate = (number) => (ratesShown() ? short(number) : NOTHING);
