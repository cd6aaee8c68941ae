{{- define "mirrormq.labels" -}}
app.kubernetes.io/name: mirrormq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mirrormq.secret" -}}
{{ .Values.existingSecret | default .Release.Name }}
{{- end }}

{{- define "mirrormq.suffix" -}}
.{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- /* Whether clients may connect without TLS. */ -}}
{{- define "mirrormq.plain" -}}
{{ or .Values.tls.plainListener (not .Values.tls.existingSecret) }}
{{- end }}
