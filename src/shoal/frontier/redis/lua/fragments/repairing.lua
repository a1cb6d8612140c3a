-- repairing.lua: compare a lane with the data, after a script was aborted.

-- Correct what the host records of a lane; return whether it was wrong.
local function rescan_lane(lane)
  local suspect, fresh, best = lane[LANE_FLAGS] % 2 == SUSPECT, 0, EMPTY
  for band = suspect and -1 or LOWEST_BAND, 0, -1 do  -- suspects are never in lists
    if call('EXISTS', fresh_of(lane, band)) == 1 then fresh, best = fresh + 2 ^ band, band end
  end
  local back = call('ZRANGE', returned_of(lane), 0, 0)[1]
  if back then best = math.min(best, band_of(back)) end
  local flags = with_flag(lane[LANE_FLAGS], RETURNED, back and true or false)
  flags = with_flag(flags, SPILLED, not suspect and call('EXISTS', chunks_of(lane)) == 1)
  local wrong = fresh ~= lane[FRESH] or best ~= lane[BAND] or flags ~= lane[LANE_FLAGS]
  lane[FRESH], lane[BAND], lane[LANE_FLAGS] = fresh, best, flags
  return wrong
end
